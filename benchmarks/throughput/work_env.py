"""The environment every rig runs: a fixed amount of Python work, then a small change."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

EPISODE_LENGTH = 1000
NUM_ACTIONS = 5


def work(turns: int) -> int:
    """Keep the interpreter busy for a number of loop turns, and nothing else.

    Counting turns, not watching the clock, is what makes the comparison fair: a process that is
    pushed off its core has its work still to do when it comes back.
    """
    value = 1
    for _ in range(turns):
        value = (value * 5 + 3) & 0xFFFF
    return value


class WorkEnv(gymnasium.Env[NDArray[Any], np.int64]):
    """Works for ``turns`` loop turns per step and returns an observation that always changes.

    The observation is one array changed in place, as simulators do. That costs least, and it shows
    up any engine that hands out references where it should hand out data.
    """

    def __init__(self, turns: int, observation_shape: tuple[int, ...], dtype: str) -> None:
        scalar = np.dtype(dtype).type
        self.observation_space = gymnasium.spaces.Box(0, 255, observation_shape, scalar)
        self.action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)
        self._turns = turns
        self._observation = np.zeros(observation_shape, dtype)
        self._flat = self._observation.reshape(-1)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        self._flat[0] = 0
        return self._observation, {}

    def step(self, action: np.int64 | int) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        if self._turns:
            work(self._turns)
        steps = self._steps = self._steps + 1
        self._flat[0] = steps & 0xFF
        return self._observation, 1.0, steps >= EPISODE_LENGTH, False, {}


@dataclass(frozen=True)
class Workload:
    """What a rig is given to run: so many environments of this cost and this observation."""

    num_envs: int
    turns: int
    observation_shape: tuple[int, ...]
    dtype: str

    def env_fn(self) -> Callable[[], WorkEnv]:
        """A callable that makes one environment and can be pickled."""
        return functools.partial(WorkEnv, self.turns, self.observation_shape, self.dtype)

    def env_fns(self) -> list[Callable[[], WorkEnv]]:
        return [self.env_fn() for _ in range(self.num_envs)]

    def actions(self) -> NDArray[np.int64]:
        """One action per environment."""
        return np.arange(self.num_envs, dtype=np.int64) % NUM_ACTIONS
