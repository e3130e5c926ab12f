"""Gymnasium: ``SyncVectorEnv``, ``AsyncVectorEnv`` with shared memory, and what it has written for many at once.

Its documentation advises ``max_concurrency`` where environments outnumber cores; whether that helps
depends on the cell, so both ways are measured.
"""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from benchmarks.throughput.machine import usable_cores
from benchmarks.throughput.rigs.base import LockstepRig
from benchmarks.throughput.workload import Workload


class GymnasiumRig(LockstepRig):
    def __init__(
        self, kind: Literal["sync", "async", "async-capped", "vectorized"], start_method: str = "fork"
    ) -> None:
        self._kind, self._start_method = kind, start_method

    def open(self, workload: Workload) -> None:
        self._envs = self._make(workload)
        self._envs.reset(seed=0)

    def _make(self, workload: Workload) -> VectorEnv[Any, Any, Any]:
        if self._kind == "sync":
            return SyncVectorEnv(workload.env_fns())
        if self._kind == "vectorized":
            if workload.world is None:
                raise ValueError("not an environment that Gymnasium has")
            return gymnasium.make_vec(
                workload.world.gymnasium_id, workload.num_envs, vectorization_mode="vector_entry_point"
            )
        cap = usable_cores() if self._kind == "async-capped" else None
        return AsyncVectorEnv(workload.env_fns(), shared_memory=True, context=self._start_method, max_concurrency=cap)

    def run(self, rounds: int) -> None:
        for actions in self.next_actions(rounds):
            self._envs.step(actions)

    def close(self) -> None:
        self._envs.close()
