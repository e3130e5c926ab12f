"""A stand-in for the original simulator: an environment in Python that takes as long as CybORG does, and plays nothing.

It needs none of CybORG's old packages, so that anybody can run this benchmark, and it takes equally long every time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from benchmarks.cage2.true_state import true_state_at
from benchmarks.throughput.calibration import Calibration
from benchmarks.throughput.step_costs import work

STEP_MICROSECONDS, RESET_MICROSECONDS, TRUE_STATE_MICROSECONDS = 2_000, 14_000, 1_350
NUM_ACTIONS, NUM_BITS = 145, 52
_TRIALS = 50


@dataclass(frozen=True)
class Costs:
    """What the stand-in computes, in turns of the work loop."""

    step: int
    reset: int
    true_state: int
    """Beside what it takes to put the dictionaries together."""


def costs_of(calibration: Calibration) -> Costs:
    """CybORG's costs at this machine's speed; call it before anything else is started."""
    building = TRUE_STATE_MICROSECONDS - _building_microseconds()
    return Costs(
        step=calibration.turns(STEP_MICROSECONDS),
        reset=calibration.turns(RESET_MICROSECONDS),
        true_state=calibration.turns(max(0.0, building)),
    )


def _building_microseconds() -> float:
    seconds = []
    for trial in range(_TRIALS):
        begin = time.perf_counter()
        true_state_at(trial)
        seconds.append(time.perf_counter() - begin)
    return min(seconds) * 1e6


class StandIn(gymnasium.Env[NDArray[np.float32], np.int64]):
    """One game.

    Args:
        costs: what it computes.
        max_steps: after how many steps an episode is truncated, or ``None``.
        head_start: how many steps of its first episode are over when it begins. If these differ, episodes do not all end
            in the same round, and a turn of few rounds has its share of resets.
    """

    def __init__(self, costs: Costs, max_steps: int | None = None, head_start: int = 0) -> None:
        self.observation_space = spaces.Box(0, 1, (NUM_BITS,), np.float32)
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self._costs, self._max_steps, self._head_start = costs, max_steps, head_start
        self._observation = np.zeros(NUM_BITS, np.float32)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        work(self._costs.reset)
        self._steps, self._head_start = self._head_start, 0
        self._observation[:] = 0
        return self._observation, {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        work(self._costs.step)
        self._steps += 1
        self._observation[int(action) % NUM_BITS] = self._steps % 2
        return self._observation, -1.0, False, self._steps == self._max_steps, {}

    @property
    def true_state(self) -> dict[str, Any]:
        """What is really the case."""
        work(self._costs.true_state)
        return true_state_at(self._steps)
