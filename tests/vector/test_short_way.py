"""A few environments in this process take a shorter way, and nobody can tell by what comes of it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import shoal
from tests.comparing import difference
from tests.envs import SpaceEnv


class Odd(gymnasium.Env[Any, Any]):
    """Mostly ordinary; now and then it returns something else, or raises."""

    action_space = spaces.Box(-1, 1, (2,), np.float32)
    observation_space = spaces.Box(-9, 9, (3,), np.float32)

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self._buffer = np.zeros(3, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._buffer[:] = 0
        return self._buffer, {"begun": 1} if self.np_random.random() < 0.3 else {}

    def step(self, action: Any) -> Any:
        self.kept.append(action)
        self._buffer[:] = self.np_random.random(3)
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
            case 12:
                raise KeyboardInterrupt
        return ordinary


class OddChoices(Odd):
    """The same with a few numbers to choose from."""

    action_space = spaces.Discrete(5, start=-2)  # type: ignore[assignment]


def some_actions(random: np.random.Generator, space: spaces.Space[Any]) -> Any:
    if isinstance(space, spaces.Box):
        return random.uniform(-1, 1, (4, 2)).astype(np.float32)
    one_too_many = 4 if random.random() < 0.05 else 3
    return random.integers(-2, one_too_many, 4)


def play(takes_short_way: bool, mode: str, seed: int, kind: type[Odd]) -> list[Any]:
    random = np.random.default_rng(seed)
    log: list[Any] = []
    with shoal.make(kind, 4, backend="serial", autoreset_mode=mode) as envs:
        assert envs._short_way is not None
        if not takes_short_way:
            envs._short_way = None
        envs.reset(seed=seed)
        for _ in range(120):
            actions = some_actions(random, envs.single_action_space)
            try:
                log.append(envs.step(actions))
                actions[:] = 7  # what environments were given is theirs
            except (shoal.ShoalError, RuntimeError, KeyboardInterrupt) as error:
                log.append((type(error).__name__, str(error).splitlines()[:1]))
                log.append(envs.reset(seed=int(random.integers(10**6))))
        odd: list[Any] = [env.unwrapped for env in envs.envs]
        log.append([(np.array(env.kept), {type(action).__name__ for action in env.kept}) for env in odd])
    return log


def test_actions_that_have_no_fixed_size_take_the_ordinary_way() -> None:
    def make() -> SpaceEnv:
        return SpaceEnv(spaces.Box(0, 1, (2,), np.float32), spaces.Text(5))

    with shoal.ParallelEnv([make] * 2, backend="serial") as envs:
        envs.reset(seed=0)
        *_, info = envs.step(["abc", "de"])
        assert [given[0] for given in info["given"]] == ["abc", "de"]


@pytest.mark.parametrize("kind", [Odd, OddChoices])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("seed", range(3))
def test_it_leads_to_the_same(mode: str, seed: int, kind: type[Odd]) -> None:
    assert not difference(play(True, mode, seed, kind), play(False, mode, seed, kind))


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


def test_only_a_few_ordinary_environments_take_it() -> None:
    def has_one(env: str, num_envs: int, **keywords: Any) -> bool:
        with shoal.make(env, num_envs, **keywords) as envs:
            return envs._short_way is not None

    assert has_one("CartPole-v1", 4, backend="serial")
    assert not has_one("CartPole-v1", 13, backend="serial")
    assert not has_one("CartPole-v1", 4, backend="threads")
    assert not has_one("CartPole-v1", 4, backend="serial", copy=False)
    assert not has_one("CartPole-v1", 4, backend="serial", on_fault="restore")
    assert not has_one("FrozenLake-v1", 4, backend="serial")
    assert not has_one("shoal/CartPole-v0", 4, backend="serial")
