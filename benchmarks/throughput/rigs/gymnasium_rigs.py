"""Gymnasium: ``SyncVectorEnv`` and ``AsyncVectorEnv`` with shared memory.

Its documentation advises ``max_concurrency`` where environments outnumber cores; whether that helps
depends on the cell, so both ways are measured.
"""

from __future__ import annotations

from typing import Any, Literal

from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from benchmarks.throughput.machine import usable_cores
from benchmarks.throughput.rigs.base import LockstepRig
from benchmarks.throughput.work_env import Workload


class GymnasiumRig(LockstepRig):
    def __init__(self, kind: Literal["sync", "async", "async-capped"]) -> None:
        self._kind = kind

    def open(self, workload: Workload) -> None:
        self._envs = self._make(workload)
        self._envs.reset(seed=0)
        self._actions = workload.actions()

    def _make(self, workload: Workload) -> VectorEnv[Any, Any, Any]:
        if self._kind == "sync":
            return SyncVectorEnv(workload.env_fns())
        cap = usable_cores() if self._kind == "async-capped" else None
        return AsyncVectorEnv(workload.env_fns(), shared_memory=True, context="fork", max_concurrency=cap)

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self._envs.step(self._actions)

    def close(self) -> None:
        self._envs.close()
