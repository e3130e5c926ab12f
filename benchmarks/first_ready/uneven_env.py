"""Environments whose steps take unequal amounts of work."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from benchmarks.throughput.work_env import NUM_ACTIONS, Workload, work

Spread = Literal["even", "exponential", "straggler"]
SLOWNESS = 50
"""How much slower the straggler is, which is environment 0."""


class UnevenEnv(gymnasium.Env[NDArray[Any], np.int64]):
    """Works for a number of loop turns that was drawn beforehand. Its episode never ends."""

    def __init__(self, index: int, turns: int, spread: Spread) -> None:
        self.observation_space = gymnasium.spaces.Box(0, np.inf, (52,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)
        self._turns = [turns] * 4096
        if spread == "exponential":
            self._turns = np.random.default_rng(index).exponential(turns, size=4096).astype(int).tolist()
        elif spread == "straggler" and index == 0:
            self._turns = [turns * SLOWNESS] * 4096
        self._observation = np.zeros(52, np.float32)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        return self._observation, {}

    def step(self, action: np.int64 | int) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        work(self._turns[self._steps % 4096])
        self._steps += 1
        self._observation[0] = self._steps
        return self._observation, 1.0, False, False, {}


@dataclass(frozen=True)
class UnevenWorkload(Workload):
    """As many environments, of which each is different."""

    spread: Spread = "exponential"

    def env_fns(self) -> list[Callable[[], Any]]:
        return [functools.partial(UnevenEnv, index, self.turns, self.spread) for index in range(self.num_envs)]
