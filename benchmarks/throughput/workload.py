"""What a rig is given to run, in a form that travels to its process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from benchmarks.throughput.calibration import Calibration
from benchmarks.throughput.cells import Cell, Observation, World
from benchmarks.throughput.step_costs import StepCost
from benchmarks.throughput.work_env import NUM_ACTIONS, WorkEnv

FREE = StepCost()
EnvFn = Callable[[], gymnasium.Env[Any, Any]]

_BATCHES = 64
"""Of random actions, drawn beforehand; then they repeat."""


@dataclass(frozen=True)
class Workload:
    """So many environments of this cost and this observation, or of a world."""

    num_envs: int
    cost: StepCost = FREE
    observation: Observation = "vector"
    rich_infos: bool = False
    world: World | None = None

    def make_env(self, index: int) -> gymnasium.Env[Any, Any]:
        """The environment with this number."""
        if self.world is not None:
            return gymnasium.make(self.world.gymnasium_id)
        return WorkEnv(index, self.cost, self.observation, self.rich_infos)

    def env_fns(self) -> list[EnvFn]:
        """Callables that make one environment each and can be pickled."""
        return [functools.partial(self.make_env, index) for index in range(self.num_envs)]

    def action_batches(self) -> list[NDArray[np.int64]]:
        """Actions for one round after the other, from the beginning again after the last.

        An environment that only spends time takes the same as ever; in a world, episodes depend on what is done.
        """
        if self.world is None:
            return [np.arange(self.num_envs, dtype=np.int64) % NUM_ACTIONS]
        random = np.random.default_rng(0)
        return list(random.integers(self.world.num_actions, size=(_BATCHES, self.num_envs)))


def workload_of(cell: Cell, calibration: Calibration) -> Workload:
    """What a cell asks for, at this machine's speed."""
    if cell.waits:
        cost = StepCost(wait_seconds=cell.step_microseconds / 1e6, spread=cell.spread)
    else:
        cost = StepCost(turns=calibration.turns(cell.step_microseconds), spread=cell.spread)
    return Workload(cell.num_envs, cost, cell.observation, cell.rich_infos, cell.world)
