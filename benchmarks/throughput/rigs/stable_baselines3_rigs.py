"""Stable-Baselines3: ``DummyVecEnv`` and ``SubprocVecEnv``.

Its default start method imports torch in every process, which takes minutes here. Workers are
forked instead: starting is not measured, and a running worker does the same either way.
"""

from __future__ import annotations

from typing import Literal

import torch
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from benchmarks.throughput.rigs.base import LockstepRig
from benchmarks.throughput.workload import Workload


class StableBaselines3Rig(LockstepRig):
    def __init__(self, kind: Literal["dummy", "subproc"]) -> None:
        torch.set_num_threads(1)
        self._kind = kind

    def open(self, workload: Workload) -> None:
        self._envs = self._make(workload)
        self._envs.reset()

    def _make(self, workload: Workload) -> VecEnv:
        if self._kind == "dummy":
            return DummyVecEnv(workload.env_fns())
        return SubprocVecEnv(workload.env_fns(), start_method="fork")

    def run(self, rounds: int) -> None:
        for actions in self.next_actions(rounds):
            self._envs.step(actions)

    def close(self) -> None:
        self._envs.close()
