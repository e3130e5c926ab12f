"""PufferLib 3: ``Serial`` and ``Multiprocessing`` over its emulation of Gymnasium environments.

Its documentation asks for one worker per core, and a batch of all environments for lockstep use or of half of them
for double buffering. The arrays it returns are views of shared memory: it copies nothing.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import numpy as np
import psutil
import pufferlib.emulation
import pufferlib.vector
from numpy.typing import NDArray

from benchmarks.throughput.machine import usable_cores
from benchmarks.throughput.rigs.base import HalvesRig, LockstepRig
from benchmarks.throughput.workload import Workload


class PufferLibRig(LockstepRig):
    def __init__(self, kind: Literal["serial", "multiprocessing"]) -> None:
        self._kind = kind

    def open(self, workload: Workload) -> None:
        self._envs = self._make(workload)
        self._envs.reset(seed=0)

    def _make(self, workload: Workload) -> Any:
        if self._kind == "serial":
            return pufferlib.vector.make(**_environments(workload), backend=pufferlib.vector.Serial)
        return _make_workers(workload, batch_size=workload.num_envs)

    def run(self, rounds: int) -> None:
        for actions in self.next_actions(rounds):
            self._envs.step(actions)

    def close(self) -> None:
        _close(self._envs)


class PufferLibHalvesRig(HalvesRig):
    """Half of the workers at a time."""

    def open(self, workload: Workload) -> None:
        self._envs = _make_workers(workload, batch_size=self.half)
        self._envs.async_reset(seed=0)

    def serve(self) -> NDArray[np.int64]:
        *_, env_ids, _ = self._envs.recv()
        self._envs.send(self.actions[env_ids])
        return np.asarray(env_ids)

    def close(self) -> None:
        _close(self._envs)


def _environments(workload: Workload) -> dict[str, Any]:
    """What ``make`` wants to know of them."""
    emulated = pufferlib.emulation.GymnasiumPufferEnv
    number = workload.num_envs
    return {
        "env_creator_or_creators": [functools.partial(emulated, env_creator=env_fn) for env_fn in workload.env_fns()],
        "env_args": [[]] * number,
        "env_kwargs": [{}] * number,
        "num_envs": number,
    }


def _make_workers(workload: Workload, batch_size: int) -> Any:
    num_workers = _even_workers(workload.num_envs, usable_cores())
    return pufferlib.vector.make(
        **_environments(workload),
        backend=pufferlib.vector.Multiprocessing,
        num_workers=num_workers,
        batch_size=batch_size,
        # Hyper-threads are usable cores too; PufferLib wants to be asked before it uses them.
        overwork=num_workers > (psutil.cpu_count(logical=False) or 1),
    )


def _even_workers(num_envs: int, num_cores: int) -> int:
    """As many workers as there are cores; PufferLib wants equal numbers of environments in each."""
    return next(workers for workers in range(num_cores, 0, -1) if num_envs % workers == 0)


def _close(envs: Any) -> None:
    envs.close()
    # Its close() does not wait for the workers, which spin until they are really gone.
    for process in getattr(envs, "processes", ()):
        process.join()
