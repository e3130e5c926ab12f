"""Tianshou: ``DummyVectorEnv``, ``SubprocVectorEnv`` and ``ShmemVectorEnv``, the latter also with ``wait_num``.

Tianshou leaves finished episodes to the caller, as its own collector does it: the loop resets them.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.env import BaseVectorEnv, DummyVectorEnv, ShmemVectorEnv, SubprocVectorEnv

from benchmarks.throughput.rigs.base import HalvesRig, LockstepRig
from benchmarks.throughput.workload import Workload

_KINDS = {"dummy": DummyVectorEnv, "subproc": SubprocVectorEnv, "shmem": ShmemVectorEnv}


class TianshouRig(LockstepRig):
    def __init__(self, kind: Literal["dummy", "subproc", "shmem"]) -> None:
        torch.set_num_threads(1)
        self._kind = kind

    def open(self, workload: Workload) -> None:
        self._envs: BaseVectorEnv = _KINDS[self._kind](workload.env_fns())
        self._envs.reset()

    def run(self, rounds: int) -> None:
        for actions in self.next_actions(rounds):
            _, _, terminated, truncated, _ = self._envs.step(actions)
            finished = np.flatnonzero(terminated | truncated)
            if finished.size:
                self._envs.reset(finished)

    def close(self) -> None:
        self._envs.close()


class TianshouWaitNumRig(HalvesRig):
    """``wait_num``: a step returns when so many environments are back."""

    def __init__(self) -> None:
        torch.set_num_threads(1)

    def open(self, workload: Workload) -> None:
        self._envs: Any = ShmemVectorEnv(workload.env_fns(), wait_num=self.half)
        self._envs.reset()
        self._ready = np.arange(self.num_envs)

    def serve(self) -> NDArray[np.int64]:
        _, _, terminated, truncated, infos = self._envs.step(self.actions[self._ready], self._ready)
        self._ready = np.array([info["env_id"] for info in infos])
        finished = self._ready[terminated | truncated]
        if finished.size:
            self._envs.reset(finished)
        return self._ready

    def close(self) -> None:
        while self._envs.waiting_id:
            self._envs.step(None)
        self._envs.close()
