"""The contestants: each serves half of the environments at a time, whoever is back first, unless it can only do lockstep.

``measure(rounds)`` gives the steps per second of all environments but the first, which may be the straggler; an even
environment more or less does not matter, because all rigs leave out the same one.
"""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from benchmarks.first_ready.uneven_env import UnevenWorkload
from benchmarks.throughput.machine import usable_cores
from benchmarks.throughput.rigs.base import Rig


class ServingRig(Rig):
    """Counts the steps of every environment."""

    def start(self, workload: UnevenWorkload) -> None:  # type: ignore[override]
        self.num_envs = workload.num_envs
        self.counts = np.zeros(self.num_envs, dtype=np.int64)
        self.open(workload)

    def measure(self, rounds: int) -> float:
        self.counts[:] = 0
        begin = time.perf_counter()
        self.serve(rounds * self.num_envs)
        return float(self.counts[1:].sum() / (time.perf_counter() - begin))

    def open(self, workload: UnevenWorkload) -> None:
        raise NotImplementedError

    def serve(self, steps: int) -> None:
        """Until so many steps have been taken."""
        raise NotImplementedError


class ShoalFirstReadyRig(ServingRig):
    """``send`` and ``recv`` on shared memory, with so many workers for each processor."""

    def __init__(self, workers_per_processor: str) -> None:
        self._num_workers = int(workers_per_processor) * usable_cores()

    def open(self, workload: UnevenWorkload) -> None:
        import shoal

        self._envs = shoal.ParallelEnv(workload.env_fns(), backend="shm", num_workers=self._num_workers)
        self._envs.reset(seed=0)
        self._actions = workload.actions()
        self._envs.send(self._actions)

    def serve(self, steps: int) -> None:
        done = 0
        while done < steps:
            env_ids = self._envs.recv(min_envs=self.num_envs // 2).env_ids
            self.counts[env_ids] += 1
            done += len(env_ids)
            self._envs.send(self._actions[env_ids], env_ids)

    def close(self) -> None:
        self._envs.close(terminate=True)


class LockstepRig(ServingRig):
    """Waits for all."""

    def open(self, workload: UnevenWorkload) -> None:
        self._envs = self.make(workload)
        self._envs.reset(seed=0)
        self._actions = workload.actions()

    def make(self, workload: UnevenWorkload) -> Any:
        raise NotImplementedError

    def serve(self, steps: int) -> None:
        for _ in range(steps // self.num_envs):
            self._envs.step(self._actions)
            self.counts += 1

    def close(self) -> None:
        self._envs.close()


class ShoalLockstepRig(LockstepRig):
    """``step`` on shared memory."""

    def make(self, workload: UnevenWorkload) -> Any:
        import shoal

        return shoal.ParallelEnv(workload.env_fns(), backend="shm")


class GymnasiumLockstepRig(LockstepRig):
    """``AsyncVectorEnv``, which can only wait for all."""

    def make(self, workload: UnevenWorkload) -> Any:
        import gymnasium

        return gymnasium.vector.AsyncVectorEnv(workload.env_fns())


class TianshouWaitNumRig(ServingRig):
    """``ShmemVectorEnv(wait_num=…)``: its asynchronous mode."""

    def open(self, workload: UnevenWorkload) -> None:
        import torch
        from tianshou.env import ShmemVectorEnv

        torch.set_num_threads(1)
        self._envs = ShmemVectorEnv(workload.env_fns(), wait_num=self.num_envs // 2)
        self._envs.reset()
        self._actions = workload.actions()
        self._ready = np.arange(self.num_envs)

    def serve(self, steps: int) -> None:
        done = 0
        while done < steps:
            *_, infos = self._envs.step(self._actions[self._ready], self._ready)
            self._ready = np.array([info["env_id"] for info in infos])
            self.counts[self._ready] += 1
            done += len(self._ready)

    def close(self) -> None:
        while self._envs.waiting_id:
            self._envs.step(None)
        self._envs.close()


class TorchRLPoolRig(ServingRig):
    """``AsyncEnvPool`` on processes, exchanging data through shared memory."""

    def open(self, workload: UnevenWorkload) -> None:
        import functools

        import torch
        from torchrl.envs import AsyncEnvPool

        torch.set_num_threads(1)
        # Its default imports torch in every worker, which takes minutes; starting is not measured.
        multiprocessing.set_start_method("fork", force=True)
        makers = [functools.partial(_wrapped, env_fn) for env_fn in workload.env_fns()]
        self._envs: Any = AsyncEnvPool(makers, backend="multiprocessing", exchange="auto")
        state = self._envs.reset()
        state["action"] = torch.from_numpy(workload.actions())
        self._envs.async_step_and_maybe_reset_send(state)

    def serve(self, steps: int) -> None:
        done = 0
        while done < steps:
            result, state = self._envs.async_step_and_maybe_reset_recv(min_get=self.num_envs // 2)
            env_ids = np.array(result["env_index"])
            self.counts[env_ids] += 1
            done += len(env_ids)
            state["action"] = result["action"]
            self._envs.async_step_and_maybe_reset_send(state)

    def close(self) -> None:
        self._envs.close()


def _wrapped(env_fn: Any) -> Any:
    from torchrl.envs import GymWrapper

    return GymWrapper(env_fn(), categorical_action_encoding=True)


class IdealRig(Rig):
    """A bare loop over its share of the environments on every processor, all at once."""

    def start(self, workload: UnevenWorkload) -> None:  # type: ignore[override]
        context = multiprocessing.get_context("fork")
        self._loops: list[tuple[Connection, BaseProcess]] = []
        for loop in range(usable_cores()):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve_loop, args=(theirs, workload, loop))
            process.start()
            theirs.close()
            self._loops.append((ours, process))
        self._share = (workload.num_envs - 1) / workload.num_envs

    def measure(self, rounds: int) -> float:
        for connection, _ in self._loops:
            connection.send(rounds)
        rates: list[float] = [connection.recv() for connection, _ in self._loops]
        return sum(rates) * self._share

    def close(self) -> None:
        for connection, process in self._loops:
            connection.send(None)
            process.join()
            connection.close()
        self._loops = []


def _serve_loop(connection: Connection, workload: UnevenWorkload, loop: int) -> None:
    envs = [env_fn() for env_fn in workload.env_fns()[loop :: usable_cores()]]
    for env in envs:
        env.reset()
    while (rounds := connection.recv()) is not None:
        begin = time.perf_counter()
        for _ in range(rounds):
            for env in envs:
                env.step(0)
        connection.send(rounds * len(envs) / (time.perf_counter() - begin))
