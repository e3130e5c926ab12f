"""Shoal: its defaults, and one rig per backend that can be chosen instead."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import shoal
from benchmarks.throughput.machine import usable_cores
from benchmarks.throughput.rigs.base import HalvesRig, LockstepRig
from benchmarks.throughput.workload import Workload
from shoal.vector.auto.autopilot import UNDECIDED


class ShoalRig(LockstepRig):
    """``step`` on a backend."""

    def __init__(self, backend: Literal["serial", "threads", "pipes", "shm"], start_method: str | None = None) -> None:
        self._backend, self._start_method = backend, start_method

    def open(self, workload: Workload) -> None:
        self._envs = self.make(workload)
        self._envs.reset(seed=0)

    def make(self, workload: Workload) -> shoal.ParallelEnv:
        return _make(workload, backend=self._backend, start_method=self._start_method)

    def run(self, rounds: int) -> None:
        for actions in self.next_actions(rounds):
            self._envs.step(actions)

    def close(self) -> None:
        self._envs.close()


class ShoalAutoRig(ShoalRig):
    """What a user gets who chooses nothing."""

    def __init__(self) -> None:
        """Without a choice there is nothing to say."""

    def make(self, workload: Workload) -> shoal.ParallelEnv:
        return _make(workload)

    def measure(self, rounds: int) -> float:
        # The first steps are spent on finding out where the environments run best, once for as long as they live.
        while self._envs.plan.reason == UNDECIDED:
            self.run(1)
        return super().measure(rounds)

    def remark(self) -> str:
        plan = self._envs.plan
        workers = "" if plan.backend == "serial" else f", {plan.num_workers} workers"
        return f"{plan.backend}{workers}: {plan.reason}"


class ShoalFirstReadyRig(HalvesRig):
    """``send`` and ``recv``: whoever is back first. With nothing chosen, or with so many workers for each processor."""

    def __init__(self, workers_per_processor: str | None = None) -> None:
        self._workers_per_processor = workers_per_processor

    def open(self, workload: Workload) -> None:
        self._envs = self.make(workload)
        self._envs.reset(seed=0)
        self._envs.send(self.actions)

    def make(self, workload: Workload) -> shoal.ParallelEnv:
        if self._workers_per_processor is None:
            return _make(workload)
        return _make(workload, backend="shm", num_workers=int(self._workers_per_processor) * usable_cores())

    def serve(self) -> NDArray[np.int64]:
        env_ids = self._envs.recv(min_envs=self.half).env_ids
        self._envs.send(self.actions[env_ids], env_ids)
        return env_ids

    def close(self) -> None:
        self._envs.close(terminate=True)


class ShoalSplitRig(HalvesRig):
    """Two halves that take turns: one works while the other is served."""

    def open(self, workload: Workload) -> None:
        self._envs = _make(workload, backend="shm")
        self._envs.reset(seed=0)
        self._parts = list(self._envs.split(2))
        for part in self._parts:
            part.step_async(self.actions[part.env_ids])

    def serve(self) -> NDArray[np.int64]:
        part = self._parts.pop(0)
        part.step_wait()
        part.step_async(self.actions[part.env_ids])
        self._parts.append(part)
        return np.asarray(part.env_ids)

    def close(self) -> None:
        self._envs.close(terminate=True)


def _make(workload: Workload, **choices: Any) -> shoal.ParallelEnv:
    world = workload.world
    if world is None:
        return shoal.ParallelEnv(workload.env_fns(), **choices)
    return shoal.make(
        world.shoal_id or world.gymnasium_id, workload.num_envs, **choices, **dict[str, Any](world.shoal_keywords)
    )
