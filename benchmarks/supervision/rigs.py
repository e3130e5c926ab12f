"""The rigs of the throughput benchmark, with a policy about faults."""

from __future__ import annotations

from typing import Literal

import shoal
from benchmarks.throughput.rigs.shoal_rigs import ShoalFirstReadyRig, ShoalRig
from benchmarks.throughput.workload import Workload

Backend = Literal["pipes", "shm"]


class LockstepRig(ShoalRig):
    """``step``."""

    def __init__(self, backend: Backend, policy: str) -> None:
        super().__init__(backend)
        self._policy = policy

    def make(self, workload: Workload) -> shoal.ParallelEnv:
        return shoal.ParallelEnv(workload.env_fns(), backend=self._backend, on_fault=self._policy)


class FirstReadyRig(ShoalFirstReadyRig):
    """``send`` and ``recv``, half of the environments at a time."""

    def __init__(self, backend: Backend, policy: str) -> None:
        self._backend, self._policy = backend, policy

    def make(self, workload: Workload) -> shoal.ParallelEnv:
        return shoal.ParallelEnv(workload.env_fns(), backend=self._backend, on_fault=self._policy)
