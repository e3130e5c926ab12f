"""The contestants: the same world, as each library has it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from benchmarks.throughput.rigs.base import LockstepRig
from benchmarks.throughput.workload import Workload


@dataclass(frozen=True)
class WorldWorkload(Workload):
    """So many environments of a world, under its name in Gymnasium."""

    env_id: str = ""


class WorldRig(LockstepRig):
    """Steps with random actions that were drawn before."""

    keyword: ClassVar[str] = ""

    def __init__(self, cores: str) -> None:
        self._cores = cores
        if cores == "one core":
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    def open(self, workload: Workload) -> None:
        assert isinstance(workload, WorldWorkload)
        self._envs: Any = self.make(workload)
        self._envs.reset()
        random = np.random.default_rng(0)
        self._actions = [random.integers(self.num_actions, size=workload.num_envs) for _ in range(64)]

    @property
    def num_actions(self) -> int:
        space = getattr(self._envs, "single_action_space", self._envs.action_space)
        return int(space.n)

    def make(self, workload: WorldWorkload) -> Any:
        raise NotImplementedError

    def run(self, rounds: int) -> None:
        step, actions = self._envs.step, self._actions
        for number in range(rounds):
            step(actions[number % 64])

    def close(self) -> None:
        self._envs.close()


class ShoalWorldRig(WorldRig):
    """Shoal's own world, where it has one."""

    def make(self, workload: WorldWorkload) -> Any:
        import shoal

        env_id = f"shoal/{workload.env_id.replace('-v1', '-v0')}"
        backend = "serial" if self._cores == "one core" else "threads"
        return shoal.make(env_id, workload.num_envs, backend=backend)


class ShoalRig(WorldRig):
    """Gymnasium's environment in Shoal."""

    def make(self, workload: WorldWorkload) -> Any:
        import shoal

        return shoal.make(workload.env_id, workload.num_envs)


class GymnasiumRig(WorldRig):
    def make(self, workload: WorldWorkload) -> Any:
        import gymnasium

        return gymnasium.make_vec(workload.env_id, workload.num_envs, vectorization_mode="sync")


class EnvPoolRig(WorldRig):
    """As its documentation shows it; as many threads as cores."""

    def make(self, workload: WorldWorkload) -> Any:
        import envpool

        return envpool.make(
            workload.env_id,
            env_type="gymnasium",
            num_envs=workload.num_envs,
            num_threads=len(os.sched_getaffinity(0)),
        )

    @property
    def num_actions(self) -> int:
        return int(self._envs.action_space.n)
