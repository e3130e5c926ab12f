"""The contestants. Shoal may be that of another checkout, to see what a change has brought."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.throughput.rigs.base import LockstepRig
from benchmarks.throughput.workload import Workload

WORDS = ("go north", "go south", "take the lamp", "look", "wait")


class ShoalRig(LockstepRig):
    """``ParallelEnv`` with numbers as actions, or ``EnvList`` with texts."""

    def __init__(self, face: str, backend: str, checkout: str = "") -> None:
        if checkout:
            source = str(Path(checkout) / "src")
            sys.path.insert(0, source)
            os.environ["PYTHONPATH"] = os.pathsep.join([source, *sys.path[1:]])
        self._face, self._backend = face, backend

    def open(self, workload: Workload) -> None:
        import shoal

        if self._face == "ParallelEnv":
            self._envs: Any = shoal.ParallelEnv(workload.env_fns(), backend=self._backend)
            self._rounds: list[Any] = [np.full(self.num_envs, number) for number in range(len(WORDS))]
        else:
            self._envs = shoal.EnvList(workload.env_fns(), backend=self._backend, autoreset_mode="NextStep")
            self._rounds = [[word] * self.num_envs for word in WORDS]
        self._envs.reset(seed=0)

    def measure(self, rounds: int) -> float:
        while "first steps are timed" in self._envs.plan.reason:  # once for as long as they live
            self.run(1)
        return super().measure(rounds)

    def run(self, rounds: int) -> None:
        _run(self._envs.step, self._rounds, rounds)

    def remark(self) -> str:
        plan = self._envs.plan
        return f"{plan.backend}: {plan.reason}"

    def close(self) -> None:
        self._envs.close()


class GymnasiumRig(LockstepRig):
    """``SyncVectorEnv``, or ``AsyncVectorEnv`` with pipes: it has no shared memory for texts."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def open(self, workload: Workload) -> None:
        from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

        env_fns = workload.env_fns()
        self._envs: Any = (
            SyncVectorEnv(env_fns)
            if self._kind == "sync"
            else AsyncVectorEnv(env_fns, shared_memory=False, context="fork")
        )
        self._rounds = [np.full(self.num_envs, number) for number in range(len(WORDS))]
        self._envs.reset(seed=0)

    def run(self, rounds: int) -> None:
        _run(self._envs.step, self._rounds, rounds)

    def close(self) -> None:
        self._envs.close()


def _run(step: Callable[[Any], Any], actions: list[Any], rounds: int) -> None:
    for number in range(rounds):
        step(actions[number % len(actions)])
