"""PufferLib 3: ``Serial`` and ``Multiprocessing`` over its emulation of Gymnasium environments.

Its documentation asks for one worker per core and a batch of all environments for lockstep use. The
arrays it returns are views of shared memory: it copies nothing.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import psutil
import pufferlib.emulation
import pufferlib.vector

from benchmarks.throughput.machine import usable_cores
from benchmarks.throughput.rigs.base import LockstepRig
from benchmarks.throughput.work_env import Workload


class PufferLibRig(LockstepRig):
    def __init__(self, kind: Literal["serial", "multiprocessing"]) -> None:
        self._kind = kind

    def open(self, workload: Workload) -> None:
        self._envs = self._make(workload)
        self._envs.reset(seed=0)
        self._actions = workload.actions()

    def _make(self, workload: Workload) -> Any:
        make = functools.partial(pufferlib.emulation.GymnasiumPufferEnv, env_creator=workload.env_fn())
        if self._kind == "serial":
            return pufferlib.vector.make(make, num_envs=workload.num_envs, backend=pufferlib.vector.Serial)
        num_workers = _even_workers(workload.num_envs, usable_cores())
        return pufferlib.vector.make(
            make,
            num_envs=workload.num_envs,
            backend=pufferlib.vector.Multiprocessing,
            num_workers=num_workers,
            batch_size=workload.num_envs,
            # Hyper-threads are usable cores too; PufferLib wants to be asked before it uses them.
            overwork=num_workers > (psutil.cpu_count(logical=False) or 1),
        )

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self._envs.step(self._actions)

    def close(self) -> None:
        self._envs.close()
        # Its close() does not wait for the workers, which spin until they are really gone.
        for process in getattr(self._envs, "processes", ()):
            process.join()


def _even_workers(num_envs: int, num_cores: int) -> int:
    """As many workers as there are cores; PufferLib wants equal numbers of environments in each."""
    return next(workers for workers in range(num_cores, 0, -1) if num_envs % workers == 0)
