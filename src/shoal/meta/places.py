"""Where rollouts are played: one environment in this process, or a manager with several, behind the same two calls."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from shoal.vector.layout import Array


class Stepped(NamedTuple):
    """What environments answer to a step, a row for each."""

    observations: Array
    rewards: Array
    dones: Array
    infos: list[dict[str, Any]]


class Places(Protocol):
    """Environments that are addressed by their index."""

    num_places: int

    def reset(self, tasks: list[Any], seeds: list[int], rows: list[int]) -> Array:
        """Begin these tasks there."""

    def step(self, actions: Array, rows: list[int]) -> Stepped:
        """Take these actions there."""


class OnePlace:
    """A single environment."""

    num_places = 1

    def __init__(self, env: Any) -> None:
        self._env = env

    def reset(self, tasks: list[Any], seeds: list[int], rows: list[int]) -> Array:
        """Begin a task."""
        observation, _ = self._env.reset(task=tasks[0], seed=seeds[0])
        return np.asarray(observation, np.float32)[None]

    def step(self, actions: Array, rows: list[int]) -> Stepped:
        """Take an action."""
        observation, reward, terminated, truncated, info = self._env.step(actions[0])
        observations, rewards = np.asarray(observation, np.float32)[None], np.array([reward], np.float32)
        return Stepped(observations, rewards, np.array([terminated or truncated]), [info])


class ManyPlaces:
    """Those of a manager."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self.num_places = manager.num_envs

    def reset(self, tasks: list[Any], seeds: list[int], rows: list[int]) -> Array:
        """Begin tasks in some of them, and leave the others as they are."""
        observations, _ = self._manager.reset(tasks=tasks, seeds=seeds, env_ids=rows)
        return np.asarray(observations, np.float32)

    def step(self, actions: Array, rows: list[int]) -> Stepped:
        """Step some of them."""
        observations, rewards, dones, infos = self._manager.step(actions, env_ids=rows)
        return Stepped(np.asarray(observations, np.float32), np.asarray(rewards, np.float32), np.asarray(dones), infos)
