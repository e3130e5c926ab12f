"""What everybody trains: environments, network and settings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium

from benchmarks.throughput.step_costs import StepCost
from benchmarks.throughput.workload import Workload

EnvFn = Callable[[], gymnasium.Env[Any, Any]]


@dataclass(frozen=True)
class Settings:
    """Of PPO. Those of CleanRL, without schedule and value clipping, which Stable-Baselines3 leaves out by default."""

    rollout_steps: int = 128
    epochs: int = 4
    minibatches: int = 4
    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    value: float = 0.5
    max_gradient_norm: float = 0.5
    hidden: int = 64
    """Units of each of two layers, of policy and value each, with hyperbolic tangents."""


@dataclass(frozen=True)
class Cell:
    """So many environments of one kind."""

    name: str
    num_envs: int
    step_microseconds: float | None
    """Of pure computing; ``None`` is Gymnasium's ``CartPole-v1``."""
    rollouts: int
    """Of which a turn consists."""


CELLS = (
    Cell("cartpole-x8", 8, None, 6),
    Cell("cartpole-x64", 64, None, 1),
    Cell("300us-x8", 8, 300.0, 2),
    Cell("300us-x64", 64, 300.0, 1),
)
GROWTH = tuple(Cell(f"300us-x{number}", number, 300.0, 16 // number) for number in (1, 4, 8, 16))
"""The numbers of environments of the table that people are told: how much faster is training with more of them?"""


@dataclass(frozen=True)
class Task:
    """A cell at the speed of this machine, in a form that travels to a process."""

    cell: Cell
    turns: int
    """Of the work loop, for a step."""
    settings: Settings = Settings()

    def env_fns(self) -> list[EnvFn]:
        if self.cell.step_microseconds is None:
            return [functools.partial(gymnasium.make, "CartPole-v1")] * self.cell.num_envs
        return list(Workload(self.cell.num_envs, StepCost(turns=self.turns)).env_fns())

    @property
    def steps_per_turn(self) -> int:
        return self.cell.rollouts * self.settings.rollout_steps * self.cell.num_envs
