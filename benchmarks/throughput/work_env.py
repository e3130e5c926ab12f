"""The environment every rig runs: it spends what a step costs, then changes a little."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from benchmarks.throughput.cells import Observation
from benchmarks.throughput.step_costs import StepCost

EPISODE_LENGTH = 1000
NUM_ACTIONS = 5
NUM_GOALS = 10


class WorkEnv(gymnasium.Env[Any, np.int64]):
    """Spends so much per step and returns an observation that always changes.

    Arrays are changed in place, as simulators do. That costs least, and it shows up any engine that
    hands out references where it should hand out data.
    """

    def __init__(self, index: int, cost: StepCost, observation: Observation, rich_infos: bool) -> None:
        self.observation_space = _space(observation)
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self._spend, self._amounts = cost.spend, cost.amounts(index)
        self._arrays = _arrays(self.observation_space)
        self._single = self._arrays.get("")
        self._first = next(iter(self._arrays.values())).reshape(-1)
        self._rich_infos = rich_infos
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        self._first[0] = 0
        return (self._single if self._single is not None else self._several()), {}

    def step(self, action: np.int64 | int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._spend is not None:
            self._spend(next(self._amounts))
        steps = self._steps = self._steps + 1
        self._first[0] = steps & 0xFF
        # No calls that can be spared: in some cells nothing else is measured than what a step costs beside its work.
        observation = self._single if self._single is not None else self._several()
        return observation, 1.0, steps >= EPISODE_LENGTH, False, self._info() if self._rich_infos else {}

    def _several(self) -> dict[str, Any]:
        return {**self._arrays, "goal": np.int64(self._steps % NUM_GOALS)}

    def _info(self) -> dict[str, Any]:
        """What real environments like to tell: numbers, a word, a small array."""
        return {
            "score": 0.5 * self._steps,
            "lives": 3,
            "success": False,
            "phase": "search" if self._steps < EPISODE_LENGTH // 2 else "return",
            "velocity": np.full(3, self._steps, dtype=np.float32),
        }


def _space(observation: Observation) -> spaces.Space[Any]:
    if observation == "vector":
        return spaces.Box(0, 255, (52,), np.float32)
    if observation == "pixels":
        return spaces.Box(0, 255, (84, 84, 4), np.uint8)
    return spaces.Dict(
        {
            "image": spaces.Box(0, 255, (16, 16, 3), np.uint8),
            "position": spaces.Box(0, 255, (8,), np.float32),
            "goal": spaces.Discrete(NUM_GOALS),
        }
    )


def _arrays(space: spaces.Space[Any]) -> dict[str, NDArray[Any]]:
    """One array for each part of an observation that is one; a single one has no name."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    return {name: np.zeros(part.shape, part.dtype) for name, part in parts.items() if isinstance(part, spaces.Box)}
