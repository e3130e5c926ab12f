"""EnvPool: its own environments in C++, in lockstep, with as many threads as there are cores."""

from __future__ import annotations

from typing import Any

import envpool

from benchmarks.throughput.machine import usable_cores
from benchmarks.throughput.rigs.base import LockstepRig
from benchmarks.throughput.workload import Workload


class EnvPoolRig(LockstepRig):
    def open(self, workload: Workload) -> None:
        if workload.world is None:
            raise ValueError("not an environment that EnvPool has")
        self._envs: Any = envpool.make(
            workload.world.envpool_id,
            env_type="gymnasium",
            num_envs=workload.num_envs,
            num_threads=usable_cores(),
        )
        self._envs.reset()

    def run(self, rounds: int) -> None:
        for actions in self.next_actions(rounds):
            self._envs.step(actions)

    def close(self) -> None:
        self._envs.close()
