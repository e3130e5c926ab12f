"""A text world: every step has an observation and an info that have never been seen before."""

from __future__ import annotations

import functools
import string
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium import spaces

from benchmarks.throughput.step_costs import StepCost
from benchmarks.throughput.workload import EnvFn, Workload

LENGTH = 500
EPISODE_LENGTH = 1000
NUM_ACTIONS = 5
_REST = ("You are in a room with a lamp and two doors. " * LENGTH)[: LENGTH - 8]


class TextEnv(gymnasium.Env[str, Any]):
    """Spends so much per step, then says something of 500 characters, and tells a word, a number and a flag."""

    def __init__(self, index: int, cost: StepCost) -> None:
        self.observation_space = spaces.Text(LENGTH, charset=string.printable)
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self._spend, self._amounts = cost.spend, cost.amounts(index)
        self._first = index * 10**5
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return f"{self._first:08d}{_REST}", {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._spend is not None:
            self._spend(next(self._amounts))
        steps = self._steps = self._steps + 1
        info = {"place": f"room {steps}", "score": 0.5 * steps, "has_won": False}
        return f"{self._first + steps:08d}{_REST}", 1.0, steps >= EPISODE_LENGTH, False, info


@dataclass(frozen=True)
class TextWorkload(Workload):
    """So many text worlds."""

    def env_fns(self) -> list[EnvFn]:
        return [functools.partial(TextEnv, index, self.cost) for index in range(self.num_envs)]
