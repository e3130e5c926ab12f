"""Environments in this process take a shorter way, and nobody can tell by what comes of it."""

from __future__ import annotations

import os
import re
import signal
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import shoal
from shoal.vector.messages import Command, Op
from shoal.vector.runner import Runner
from shoal.vector.short_way import LARGE
from tests.comparing import difference
from tests.envs import SpaceEnv


class Odd(gymnasium.Env[Any, Any]):
    """Mostly ordinary; now and then it returns something else, or raises."""

    action_space = spaces.Box(-1, 1, (2,), np.float32)
    observation_space = spaces.Box(-9, 9, (3,), np.float32)
    interrupts = True

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self._buffer = np.zeros(self.observation_space.shape, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._buffer[:] = 0
        return self._buffer, {"begun": 1} if self.np_random.random() < 0.3 else {}

    def step(self, action: Any) -> Any:
        self.kept.append(action)
        self._buffer[:3] = self.np_random.random(3)
        ordinary: Any = (self._buffer, float(np.sum(action)), False, False, {})
        match int(self.np_random.integers(40)):
            case 0:
                raise RuntimeError("odd")
            case 1:
                return self._buffer.tolist(), 1, False, False, {}
            case 2:
                return self._buffer, np.float32(2), np.False_, np.False_, {"said": 1}
            case 3:
                return self._buffer, np.array([3.0]), 0, 0, {}
            case 4:
                return self._buffer, np.nan, False, True, {}
            case 5:
                return self._buffer.astype(float), 1.0, np.True_, False, {"ended": 2}
            case 6:
                return list(ordinary)
            case 7:
                return self._buffer, 1.0, False, False, None
            case 8:
                return self._buffer, 1.0, False, False, np.zeros(3)
            case 9:
                return self._buffer[:2], 1.0, False, False, {}
            case 10:
                return self._buffer, 10**400, False, False, {}
            case 11:
                return (part for part in ordinary)
            case 12 if self.interrupts:
                raise KeyboardInterrupt
        return ordinary


class OddChoices(Odd):
    """The same with a few numbers to choose from."""

    action_space = spaces.Discrete(5, start=-2)  # type: ignore[assignment]


class OddPictures(OddChoices):
    """The same with observations that are so large that they are written only once."""

    observation_space = spaces.Box(-9, 9, (LARGE // 16,), np.float32)


class OddDictionaries(OddChoices):
    """The same with observations of several parts, of which one is missing, or too many, now and then."""

    observation_space = spaces.Dict(at=spaces.Box(-9, 9, (3,), np.float32), number=spaces.Discrete(9))  # type: ignore[assignment]

    def __init__(self) -> None:
        self.kept = []
        self._buffer = np.zeros(3, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        at, info = super().reset(seed=seed)
        return {"at": at, "number": 0}, info

    def step(self, action: Any) -> Any:
        result = super().step(action)
        if type(result) is not tuple:
            return result
        at, *others = result
        number = int(self.np_random.integers(9))
        match int(self.np_random.integers(30)):
            case 0:
                return {"at": at}, *others
            case 1:
                return {"number": number, "at": at, "more": 1}, *others
            case 2:
                return {"at": at, "number": 2**80}, *others
            case 3:
                return {"at": at, "number": np.float32(number)}, *others
        return {"at": at, "number": np.int64(number) if number % 2 else number}, *others


class OddNumbers(OddDictionaries):
    """The same with numbers alone."""

    observation_space = spaces.Discrete(9)  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed)
        return observation["number"], info

    def step(self, action: Any) -> Any:
        result = super().step(action)
        return (result[0].get("number"), *result[1:]) if type(result) is tuple else result


class OddTellers(OddChoices):
    """The same with much to tell, mostly the same."""

    def step(self, action: Any) -> Any:
        result = super().step(action)
        if type(result) is not tuple or result[4] != {}:
            return result
        told = {"sum": float(self._buffer.sum()), "word": "ab"[len(self.kept) % 2], "at": self._buffer[:2]}
        return *result[:4], told if self.np_random.random() < 0.98 else {"else": None}


class OddEpisodes(OddChoices):
    """The same with short episodes, which begin in odd ways now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(7)  # a reset gives the other one a seed

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        observation, info = super().reset(seed=seed)
        self.kept.append(-5)
        self._buffer[:2] = self.random.random(2)
        if self.kept.count(-5) < 3:  # so that most go on after they have raised
            return observation, info
        match int(self.random.integers(60)):
            case 0:
                raise RuntimeError("odd from the beginning")
            case 1:
                return self._buffer.tolist(), info
            case 2:
                return self._buffer[:2], info
            case 3:
                return observation
            case 4:
                return self._buffer.astype(float), MappingProxyType({"proxy": 1})
            case 5:
                return observation, None
            case 6 if self.interrupts:
                raise KeyboardInterrupt
        return observation, info

    def step(self, action: Any) -> Any:
        result = super().step(action)
        if type(result) is not tuple or result[2] is not False or self.random.random() > 0.4:
            return result
        observation, reward, _, _, info = result
        ends = [(True, False), (False, True), (True, True), (np.True_, np.False_), (False, np.True_), (1, 0)]
        told = [info, {"last": reward}, {"said": 1}][int(self.random.integers(3))]
        return observation, reward, *ends[int(self.random.integers(len(ends)))], told


class OddLongEpisodes(OddEpisodes):
    """The same where a step is odd much less often, so that most of what happens are ends and beginnings."""

    def step(self, action: Any) -> Any:
        self.kept.append(action)
        self._buffer[:3] = self.random.random(3)
        has_ended = self.random.random() < 0.2
        return self._buffer, self.random.random(), has_ended, False, {}


class OddEpisodesOfPictures(OddEpisodes):
    """The same with observations that are so large that they are written only once."""

    observation_space = spaces.Box(-9, 9, (LARGE // 16,), np.float32)


class OddEpisodesOfTexts(OddLongEpisodes):
    """The same with observations that have no fixed size."""

    observation_space = spaces.Text(200)  # type: ignore[assignment]

    def __init__(self) -> None:
        self.kept, self.random, self._buffer = [], np.random.default_rng(7), np.zeros(3, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        result = super().reset(seed=seed)
        return (str(result[0]), result[1]) if type(result) is tuple else result

    def step(self, action: Any) -> Any:
        observation, *others = super().step(action)
        return str(observation), *others


class EpisodesElsewhere(OddEpisodes):
    """Where an interrupt could only be the environment's own."""

    interrupts = False


class LongEpisodesElsewhere(OddLongEpisodes):
    """Where an interrupt could only be the environment's own."""

    interrupts = False


class TellingElsewhere(OddTellers):
    """Where an interrupt could only be the environment's own."""

    interrupts = False


class OddElsewhere(OddChoices):
    """Where an interrupt could only be the environment's own."""

    interrupts = False


def some_actions(random: np.random.Generator, space: spaces.Space[Any]) -> Any:
    if isinstance(space, spaces.Box):
        return random.uniform(-1, 1, (4, 2)).astype(np.float32)
    one_too_many = 4 if random.random() < 0.05 else 3
    return random.integers(-2, one_too_many, 4)


def reset(envs: Any, random: np.random.Generator) -> Any:
    """Until nobody raises."""
    while True:
        try:
            return envs.reset(seed=int(random.integers(10**6)))
        except (shoal.ShoalError, RuntimeError, KeyboardInterrupt):
            pass


def play(takes_short_way: bool, mode: str, seed: int, kind: type[Odd], **keywords: Any) -> list[Any]:
    random = np.random.default_rng(seed)
    log: list[Any] = []
    with shoal.make(kind, 4, autoreset_mode=mode, **{"backend": "serial", **keywords}) as envs:
        assert (envs._short_way is not None) == (not keywords)
        if not takes_short_way:
            envs._short_way = None
        log.append(reset(envs, random))
        for _ in range(120):
            actions = some_actions(random, envs.single_action_space)
            try:
                log.append(envs.step(actions))
                actions[:] = 7  # what environments were given is theirs
            except (shoal.ShoalError, RuntimeError, KeyboardInterrupt) as error:
                log.append((type(error).__name__, re.sub(r" \(worker \d\)", "", str(error).partition("\n")[0])))
                for one in [error, *getattr(error, "others", ())]:
                    where = ("env_index", "phase", "seed", "episode", "step", "action")
                    log.append([getattr(one, name, None) for name in where])
                log.append(reset(envs, random))
        log.append([(np.array(kept), {type(action).__name__ for action in kept}) for kept in envs.get_attr("kept")])
    return log


def test_actions_that_have_no_fixed_size_take_the_ordinary_way() -> None:
    def make() -> SpaceEnv:
        return SpaceEnv(spaces.Box(0, 1, (2,), np.float32), spaces.Text(5))

    with shoal.ParallelEnv([make] * 2, backend="serial") as envs:
        envs.reset(seed=0)
        *_, info = envs.step(["abc", "de"])
        assert [given[0] for given in info["given"]] == ["abc", "de"]


@pytest.mark.parametrize(
    "kind",
    [
        Odd,
        OddChoices,
        OddPictures,
        OddDictionaries,
        OddNumbers,
        OddTellers,
        OddEpisodes,
        OddLongEpisodes,
        OddEpisodesOfPictures,
        OddEpisodesOfTexts,
    ],
)
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("seed", range(3))
def test_it_leads_to_the_same(mode: str, seed: int, kind: type[Odd]) -> None:
    assert not difference(play(True, mode, seed, kind), play(False, mode, seed, kind))


@pytest.mark.parametrize("threads", [1, 2], ids=["in turn", "at the same time"])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("kind", [OddElsewhere, TellingElsewhere, EpisodesElsewhere, LongEpisodesElsewhere])
def test_so_do_the_short_ways_in_workers(kind: type[Odd], mode: str, threads: int, process_backend: str) -> None:
    there = play(
        True,
        mode,
        1,
        kind,
        backend=process_backend,
        num_workers=2,
        threads_per_worker=threads,
        start_method="fork",
    )
    assert not difference(there, play(False, mode, 1, kind))


@pytest.mark.parametrize("num_envs", [3, 20])
def test_the_ends_of_episodes_are_on_it(num_envs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Op] = []
    execute = Runner.execute

    def noting(self: Runner, command: Command) -> Any:
        commands.append(command.op)
        return execute(self, command)

    monkeypatch.setattr(Runner, "execute", noting)
    with shoal.make("CartPole-v1", num_envs, backend="serial", tasks=lambda row, episode: episode % 2) as envs:
        observation, _ = envs.reset()
        begun = [observation[0].tolist()]
        has_ended = np.zeros(num_envs, np.bool_)
        for _ in range(60):
            was_due, (observation, reward, terminated, truncated, _) = has_ended, envs.step(np.ones(num_envs, np.int64))
            has_ended = terminated | truncated
            assert not (has_ended & was_due).any()
            assert np.array_equal(reward, np.where(was_due, 0.0, 1.0))
            if was_due[0]:
                begun.append(observation[0].tolist())
    assert len(begun) > 3
    assert begun[0] == begun[2]
    assert begun[1] == begun[3] != begun[0]
    assert Op.RESET in commands
    assert Op.STEP not in commands


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_results_are_the_callers_own(output: str) -> None:
    with shoal.make("CartPole-v1", 3, backend="serial", output=output) as envs:
        envs.reset(seed=0)
        actions = np.array([0, 1, 0])
        first = envs.step(actions)
        before = [part.tolist() for part in first[:4]]
        envs.step(actions)
        assert before == [part.tolist() for part in first[:4]]
        assert type(first[0]).__name__ == {"numpy": "ndarray", "torch": "Tensor"}[output]


@pytest.mark.parametrize("num_envs", [2, 20])
def test_what_some_environments_last_showed_is_known_when_others_are_reset(num_envs: int) -> None:
    size = LARGE // 8
    mask = np.arange(num_envs) == 1

    class Counting(gymnasium.Env[Any, Any]):
        """Counts its steps in a picture that it changes in place."""

        observation_space = spaces.Box(0, 99, (size,), np.float32)
        action_space = spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            self.picture = np.zeros(size, np.float32)
            return self.picture, {}

        def step(self, action: Any) -> Any:
            self.picture += 1
            return self.picture, 1.0, False, False, {}

        def paint(self) -> None:
            self.picture[:] = 50

    with shoal.ParallelEnv([Counting] * num_envs, backend="serial") as envs:
        envs.reset(seed=0)
        for _ in range(3):
            observation, *_ = envs.step(np.zeros(num_envs, np.int64))
        observation[:] = 77  # it is the caller's
        observation, _ = envs.reset(options={"reset_mask": mask})
        assert np.array_equal(observation[:, 0], np.where(mask, 0, 3))
        observation, *_ = envs.step(np.zeros(num_envs, np.int64))
        envs.call("paint")
        observation, _ = envs.reset(options={"reset_mask": mask})
        assert np.array_equal(observation[:, -1], np.where(mask, 0, 4))


class Brief(gymnasium.Env[Any, Any]):
    """Each episode ends with its second step."""

    observation_space: Any = spaces.Box(0, 99, (LARGE // 8,), np.float32)
    action_space = spaces.Discrete(3)
    num_episodes = num_steps = 0

    def see(self) -> Any:
        return np.full(self.observation_space.shape, 10 * self.num_episodes + self.num_steps, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.num_episodes, self.num_steps = self.num_episodes + 1, 0
        return self.see(), {}

    def step(self, action: Any) -> Any:
        self.num_steps += 1
        if action == 2:
            raise KeyboardInterrupt
        return self.see(), 1.0, self.num_steps == 2, False, {}


class BriefTexts(Brief):
    """What is seen is a text."""

    observation_space = spaces.Text(2)

    def see(self) -> Any:
        return str(10 * self.num_episodes + self.num_steps)


def test_what_began_in_a_step_that_was_interrupted_is_seen() -> None:
    with shoal.ParallelEnv([Brief] * 2, backend="serial") as envs:
        envs.reset()
        envs.step(np.zeros(2, np.int64))
        envs.reset(options={"reset_mask": np.array([False, True])})
        observation, _, terminated, *_ = envs.step(np.zeros(2, np.int64))
        assert observation[:, 0].tolist() == [12, 21]
        assert terminated.tolist() == [True, False]
        with pytest.raises(KeyboardInterrupt):
            envs.step(np.array([0, 2]))
        observation, _ = envs.reset(options={"reset_mask": np.array([False, True])})
        assert observation[:, 0].tolist() == [20, 30]


def test_episodes_that_ended_in_workers_are_brought_back(process_backend: str) -> None:
    def seen(ends_a_worker: bool) -> list[Any]:
        with shoal.ParallelEnv([BriefTexts] * 2, backend=process_backend, num_workers=1, start_method="fork") as envs:
            log: list[Any] = [envs.reset(seed=1)]
            for number in range(12):
                if ends_a_worker and number == 7:
                    os.kill(envs.worker_pids[0], signal.SIGKILL)
                log.append(envs.step(np.zeros(2, np.int64)))
            assert envs.stats.restarts == ends_a_worker
            return log

    assert not difference(seen(True), seen(False))


@pytest.mark.parametrize("num_envs", [4, 20])
@pytest.mark.parametrize("infos", [{}, {"said": 1}])
def test_observations_may_have_gaps(num_envs: int, infos: dict[str, Any], backend: str) -> None:
    class Turned(gymnasium.Env[Any, Any]):
        observation_space = spaces.Box(0, 9, (2, 3), np.float32)
        action_space = spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            return np.zeros((3, 2), np.float32).T, {}

        def step(self, action: Any) -> Any:
            return np.arange(6, dtype=np.float32).reshape(3, 2).T, 1.0, False, False, infos

    with shoal.ParallelEnv([Turned] * num_envs, backend=backend) as envs:
        envs.reset(seed=0)
        observation, *_ = envs.step(np.zeros(num_envs, np.int64))
        assert observation.tolist() == [[[0, 2, 4], [1, 3, 5]]] * num_envs


@pytest.mark.parametrize("space", [spaces.Discrete(5), spaces.Discrete(5000), spaces.Box(-1, 1, (2,), np.float32)])
def test_environments_are_given_their_own_type_of_action(space: Any, backend: str) -> None:
    class Telling(gymnasium.Env[Any, Any]):
        observation_space, action_space = spaces.Box(0, 1, (2,), np.float32), space

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            return np.zeros(2, np.float32), {}

        def step(self, action: Any) -> Any:
            kept.append((np.dtype(action.dtype).char, action.dtype.metadata, action.flags.c_contiguous))
            return np.zeros(2, np.float32), 1.0, False, False, {"given": str(kept[-1])}

    kept: list[Any] = []
    given = np.dtype(np.longlong if isinstance(space, spaces.Discrete) else np.float32, metadata={"of": "the caller"})
    with shoal.ParallelEnv([Telling] * 2, backend=backend) as envs:
        envs.reset(seed=0)
        *_, info = envs.step(np.asfortranarray(np.zeros((2, *space.shape), given)))
        assert set(info["given"]) == {str((np.dtype(space.dtype).char, None, True))}


@pytest.mark.parametrize("num_envs", [4, 20])
def test_what_is_no_result_is_explained(num_envs: int, backend: str) -> None:
    class Forgetful(gymnasium.Env[Any, Any]):
        observation_space, action_space = spaces.Box(0, 1, (2,), np.float32), spaces.Discrete(3)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            return np.zeros(2, np.float32), {}

        def step(self, action: Any) -> Any:
            observation = np.zeros(2, np.float32)
            result: Any = (observation, float(action), False, False, {})
            return observation if action else (part for part in result)

    with shoal.ParallelEnv([Forgetful] * num_envs, backend=backend) as envs:
        envs.reset(seed=0)
        _, reward, *_ = envs.step(np.zeros(num_envs, np.int64))  # whatever can be taken apart will do
        assert not reward.any()
        with pytest.raises(shoal.EnvContractError, match="step\\(\\) must return observation, reward"):
            envs.step(np.ones(num_envs, np.int64))


def test_only_ordinary_environments_take_it() -> None:
    def has_one(env: str, num_envs: int, **keywords: Any) -> bool:
        with shoal.make(env, num_envs, **keywords) as envs:
            return envs._short_way is not None

    assert has_one("CartPole-v1", 4, backend="serial")
    assert has_one("CartPole-v1", 13, backend="serial")
    assert not has_one("CartPole-v1", 4, backend="threads")
    assert not has_one("CartPole-v1", 4, backend="serial", copy=False)
    assert not has_one("CartPole-v1", 4, backend="serial", on_fault="restore")
    assert has_one("FrozenLake-v1", 4, backend="serial")
    assert has_one("Blackjack-v1", 4, backend="serial")
    assert not has_one("shoal/CartPole-v0", 4, backend="serial")
