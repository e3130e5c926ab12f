"""Simple ways to defend, and what comes of them with our own random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import shoal
from shoal.cyber import removing, restoring, sleeping
from shoal.envs.cage2.actions import index_of

Array = NDArray[Any]
Policy = Callable[[Array, int], Array]
"""The actions for the observations of many games, and the number of the step."""


def sleep(observations: Array, step: int) -> Array:
    return sleeping(observations)


def any_action(seed: int) -> Policy:
    random = np.random.default_rng(seed)
    return lambda observations, step: random.integers(145, size=len(observations))


def remove_user(observations: Array, step: int) -> Array:
    return removing(observations)


def restore_compromised(observations: Array, step: int) -> Array:
    return restoring(observations)


def restore_server_first(observations: Array, step: int) -> Array:
    """Restore Op_Server0 at once, and then sleep."""
    return np.full(len(observations), index_of("Restore", "Op_Server0") if step == 0 else 0)


def play(red: str, policy: Policy, steps: int, episodes: int, seed: int, green: str = "Sleep") -> tuple[Array, Array]:
    """Rewards (episodes, steps) and observations (episodes, steps, 52) of games that all begin at the same time."""
    rewards = np.zeros((episodes, steps))
    observations = np.zeros((episodes, steps, 52), np.int8)
    with shoal.make("shoal/Cage2-v0", episodes, red=red, green=green, max_steps=None, backend="serial") as envs:
        observation, _ = envs.reset(seed=seed)
        for step in range(steps):
            observation, rewards[:, step], _, _, _ = envs.step(policy(observation, step))
            observations[:, step] = observation
    return rewards, observations
