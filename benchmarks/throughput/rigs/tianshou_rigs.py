"""Tianshou: ``DummyVectorEnv``, ``SubprocVectorEnv`` and ``ShmemVectorEnv``.

Tianshou leaves finished episodes to the caller, as its own collector does it: the loop resets them.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from tianshou.env import BaseVectorEnv, DummyVectorEnv, ShmemVectorEnv, SubprocVectorEnv

from benchmarks.throughput.rigs.base import LockstepRig
from benchmarks.throughput.work_env import Workload

_KINDS = {"dummy": DummyVectorEnv, "subproc": SubprocVectorEnv, "shmem": ShmemVectorEnv}


class TianshouRig(LockstepRig):
    def __init__(self, kind: Literal["dummy", "subproc", "shmem"]) -> None:
        torch.set_num_threads(1)
        self._kind = kind

    def open(self, workload: Workload) -> None:
        self._envs: BaseVectorEnv = _KINDS[self._kind](workload.env_fns())
        self._envs.reset()
        self._actions = workload.actions()

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            _, _, terminated, truncated, _ = self._envs.step(self._actions)
            finished = np.flatnonzero(terminated | truncated)
            if finished.size:
                self._envs.reset(finished)

    def close(self) -> None:
        self._envs.close()
