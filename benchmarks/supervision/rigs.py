"""The rigs of the other benchmarks, with a policy about faults."""

from __future__ import annotations

from typing import Literal

import shoal
from benchmarks.first_ready.rigs import ShoalFirstReadyRig
from benchmarks.first_ready.uneven_env import UnevenWorkload
from benchmarks.throughput.rigs.shoal_rigs import ShoalRig
from benchmarks.throughput.work_env import Workload

Backend = Literal["pipes", "shm"]


class LockstepRig(ShoalRig):
    """``step``."""

    def __init__(self, backend: Backend, policy: str) -> None:
        super().__init__(backend)
        self._policy = policy

    def open(self, workload: Workload) -> None:
        self._envs = shoal.ParallelEnv(workload.env_fns(), backend=self._backend, on_fault=self._policy)
        self._envs.reset(seed=0)
        self._actions = workload.actions()


class FirstReadyRig(ShoalFirstReadyRig):
    """``send`` and ``recv``, half of the environments at a time."""

    def __init__(self, backend: Backend, policy: str) -> None:
        self._backend, self._policy = backend, policy

    def open(self, workload: UnevenWorkload) -> None:
        self._envs = shoal.ParallelEnv(workload.env_fns(), backend=self._backend, on_fault=self._policy)
        self._envs.reset(seed=0)
        self._actions = workload.actions()
        self._envs.send(self._actions)
