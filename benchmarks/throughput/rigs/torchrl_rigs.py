"""TorchRL: ``SerialEnv``, ``ParallelEnv`` and ``AsyncEnvPool`` over ``GymWrapper``.

As its documentation advises: one callable for all environments (a list would be run as different
tasks), a picklable callable, one torch thread per process, data exchanged through shared memory. Actions
are indices, which costs less than TorchRL's default of one-hot vectors. Workers are forked, because
starting is not measured and its default imports torch in every one of them.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torchrl.envs import AsyncEnvPool, GymWrapper, ParallelEnv, SerialEnv

from benchmarks.throughput.rigs.base import HalvesRig, LockstepRig
from benchmarks.throughput.workload import Workload

PoolBackend = Literal["multiprocessing", "threading"]


def wrapped_env(workload: Workload, index: int) -> Any:
    return GymWrapper(workload.make_env(index), categorical_action_encoding=True)


def make_pool(workload: Workload, backend: PoolBackend) -> Any:
    # What it imports to make and step an environment is imported once here, and not again in every worker.
    wrapped_env(workload, 0).rand_step()
    makers = [functools.partial(wrapped_env, workload, index) for index in range(workload.num_envs)]
    return AsyncEnvPool(makers, backend=backend, exchange="auto")


class TorchRLRig(LockstepRig):
    def __init__(self, kind: Literal["serial", "parallel", "pool", "pool-threads"]) -> None:
        _prepare()
        self._kind = kind

    def open(self, workload: Workload) -> None:
        self._envs = self._make(workload)
        self._state = self._envs.reset()
        self._tensors = itertools.cycle([torch.from_numpy(batch) for batch in workload.action_batches()])

    def _make(self, workload: Workload) -> Any:
        if self._kind == "pool":
            return make_pool(workload, "multiprocessing")
        if self._kind == "pool-threads":
            return make_pool(workload, "threading")
        make = functools.partial(wrapped_env, workload)
        indices = [{"index": index} for index in range(workload.num_envs)]
        if self._kind == "serial":
            return SerialEnv(workload.num_envs, make, create_env_kwargs=indices)
        return ParallelEnv(workload.num_envs, make, create_env_kwargs=indices, mp_start_method="fork")

    def run(self, rounds: int) -> None:
        with torch.no_grad():
            for actions in itertools.islice(self._tensors, rounds):
                self._state["action"] = actions
                _, self._state = self._envs.step_and_maybe_reset(self._state)

    def close(self) -> None:
        # Workers that linger are ended after this time; its default is ten seconds, for each cell of the benchmark.
        self._envs._timeout = 0.5
        self._envs.close()


class TorchRLPoolHalvesRig(HalvesRig):
    """``AsyncEnvPool``: a step returns when at least half of the environments are back."""

    def __init__(self, backend: PoolBackend) -> None:
        _prepare()
        self._backend = backend

    def open(self, workload: Workload) -> None:
        self._envs = make_pool(workload, self._backend)
        state = self._envs.reset()
        state["action"] = torch.from_numpy(self.actions)
        self._envs.async_step_and_maybe_reset_send(state)

    def serve(self) -> NDArray[np.int64]:
        result, state = self._envs.async_step_and_maybe_reset_recv(min_get=self.half)
        state["action"] = result["action"]
        self._envs.async_step_and_maybe_reset_send(state)
        return np.array(result["env_index"])

    def close(self) -> None:
        self._envs.close()


def _prepare() -> None:
    torch.set_num_threads(1)
    # What a pool starts its processes with cannot be passed to it.
    multiprocessing.set_start_method("fork", force=True)
