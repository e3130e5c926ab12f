"""Environments that use the global random numbers, each with its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import shoal
from shoal import ParallelEnv
from tests.comparing import difference, rollout
from tests.envs import CountingEnv

Make = Callable[..., ParallelEnv]


class GlobalEnv(CountingEnv):
    """Draws from the two global generators wherever it can."""

    def __init__(self) -> None:
        super().__init__(length=4)
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float64)
        self.built = random.random() + np.random.rand()

    def _draw(self) -> Any:
        return np.array([self.built, random.gauss(0, 1), np.random.normal(), np.random.randint(1000)])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._draw(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        if self.count == 2:
            np.random.seed(3)  # some environments do even that
        return self._draw(), 0.0, self.count >= self.length, False, {}

    def ask(self) -> float:
        return random.random()


def play(backend: str, num_workers: int, num_envs: int = 5, start_method: str = "fork") -> list[Any]:
    with ParallelEnv(
        [GlobalEnv] * num_envs, backend=backend, num_workers=num_workers, start_method=start_method, isolate_rng=True
    ) as envs:
        return [*rollout(envs, 9), envs.call("ask"), envs.step([0] * num_envs)]


def test_it_does_not_matter_who_shares_a_worker(way: dict[str, Any]) -> None:
    expected = play("serial", 1)
    for workers in (1, 2, 5):
        assert not difference(expected, play(way["backend"], workers, start_method=way["start_method"] or "fork"))


def test_nor_how_many_others_there_are() -> None:
    many, few = play("serial", 1, num_envs=5), play("serial", 1, num_envs=2)
    for (observations, *_), (fewer, *_) in zip(many[:10], few[:10], strict=True):
        assert not difference(observations[:2], fewer)


def test_environments_differ_and_a_seed_begins_anew(make: Make) -> None:
    envs = make([GlobalEnv] * 2, isolate_rng=True)
    first, _ = envs.reset(seed=5)
    assert first[0, 1] != first[1, 1]
    envs.step([0, 0])
    again, _ = envs.reset(seed=5)
    assert not difference(first, again)


@pytest.mark.parametrize("backend", ["serial", "threads"])
def test_the_callers_own_random_numbers_are_left_alone(backend: str) -> None:
    random.seed(1)
    np.random.seed(1)
    expected = (random.random(), np.random.rand(), np.random.normal())
    random.seed(1)
    np.random.seed(1)
    with ParallelEnv([GlobalEnv] * 3, backend=backend, isolate_rng=True) as envs:
        rollout(envs, 5)
        envs.call("ask")
    assert (random.random(), np.random.rand(), np.random.normal()) == expected


class OddEnv:
    """No gymnasium.Env, but all that is needed."""

    observation_space = spaces.Discrete(9)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return 1, {}

    def step(self, action: Any) -> Any:
        return random.randrange(9), 0.0, False, False, {}

    def close(self) -> None:
        pass


def test_an_environment_that_is_not_gymnasiums_is_isolated_too(make: Make) -> None:
    envs = make([OddEnv] * 2, isolate_rng=True)
    results = []
    for _ in range(2):
        envs.reset(seed=4)
        results.append([envs.step([0, 0])[0].tolist() for _ in range(5)])
    assert results[0] == results[1]


def test_a_factory_that_cannot_be_sent_is_named_as_itself() -> None:
    class Unsendable:
        def __call__(self) -> Any:
            return GlobalEnv()

        def __reduce__(self) -> Any:
            raise TypeError("not me")

        def __repr__(self) -> str:
            return "<my factory>"

    with pytest.raises(shoal.ConfigurationError, match="<my factory>"):
        ParallelEnv([Unsendable()], backend="shm", isolate_rng=True)
