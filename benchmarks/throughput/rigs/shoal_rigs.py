"""Shoal: its defaults, one rig per backend."""

from __future__ import annotations

from typing import Literal

import shoal
from benchmarks.throughput.rigs.base import LockstepRig
from benchmarks.throughput.work_env import Workload


class ShoalRig(LockstepRig):
    def __init__(self, backend: Literal["serial", "threads", "pipes", "shm"]) -> None:
        self._backend = backend

    def open(self, workload: Workload) -> None:
        self._envs = shoal.ParallelEnv(workload.env_fns(), backend=self._backend)
        self._envs.reset(seed=0)
        self._actions = workload.actions()

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self._envs.step(self._actions)

    def close(self) -> None:
        self._envs.close()
