"""A single environment, to be spoken to as a manager of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.meta.manager import ParallelEnvManager, Stepped
from shoal.vector.layout import Array


class OnePlace:
    """A single environment, with the two calls of a :class:`ParallelEnvManager` that collecting needs."""

    num_envs = 1

    def __init__(self, env: Any) -> None:
        self._env = env

    def reset(self, tasks: list[Any], seeds: list[int], env_ids: list[int]) -> tuple[Array, list[dict[str, Any]]]:
        """Begin a task."""
        observation, info = self._env.reset(task=tasks[0], seed=seeds[0])
        return np.asarray(observation)[None], [info]

    def step(self, actions: Array, env_ids: list[int]) -> Stepped:
        """Take an action."""
        observation, reward, terminated, truncated, info = self._env.step(actions[0])
        return Stepped(np.asarray(observation)[None], np.array([reward]), np.array([terminated or truncated]), [info])


Places = OnePlace | ParallelEnvManager
"""Where rollouts are played."""
