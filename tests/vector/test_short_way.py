"""Environments in this process take a shorter way, and nobody can tell by what comes of it."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import shoal
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


def play(takes_short_way: bool, mode: str, seed: int, kind: type[Odd], **keywords: Any) -> list[Any]:
    random = np.random.default_rng(seed)
    log: list[Any] = []
    with shoal.make(kind, 4, autoreset_mode=mode, **{"backend": "serial", **keywords}) as envs:
        assert (envs._short_way is not None) == (not keywords)
        if not takes_short_way:
            envs._short_way = None
        envs.reset(seed=seed)
        for _ in range(120):
            actions = some_actions(random, envs.single_action_space)
            try:
                log.append(envs.step(actions))
                actions[:] = 7  # what environments were given is theirs
            except (shoal.ShoalError, RuntimeError, KeyboardInterrupt) as error:
                log.append((type(error).__name__, re.sub(r" \(worker \d\)", "", str(error).partition("\n")[0])))
                log.append(envs.reset(seed=int(random.integers(10**6))))
        log.append([(np.array(kept), {type(action).__name__ for action in kept}) for kept in envs.get_attr("kept")])
    return log


def test_actions_that_have_no_fixed_size_take_the_ordinary_way() -> None:
    def make() -> SpaceEnv:
        return SpaceEnv(spaces.Box(0, 1, (2,), np.float32), spaces.Text(5))

    with shoal.ParallelEnv([make] * 2, backend="serial") as envs:
        envs.reset(seed=0)
        *_, info = envs.step(["abc", "de"])
        assert [given[0] for given in info["given"]] == ["abc", "de"]


@pytest.mark.parametrize("kind", [Odd, OddChoices, OddPictures, OddDictionaries, OddNumbers, OddTellers])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("seed", range(3))
def test_it_leads_to_the_same(mode: str, seed: int, kind: type[Odd]) -> None:
    assert not difference(play(True, mode, seed, kind), play(False, mode, seed, kind))


@pytest.mark.parametrize("threads", [1, 2], ids=["in turn", "at the same time"])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("kind", [OddElsewhere, TellingElsewhere])
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
