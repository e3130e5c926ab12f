"""TorchRL: ``SerialEnv`` and ``ParallelEnv`` over ``GymWrapper``.

As its documentation advises: one callable for all environments (a list would be run as different
tasks), a picklable callable, one torch thread per process. Actions are indices, which costs less
than TorchRL's default of one-hot vectors. Workers are forked, because starting is not measured and
its default imports torch in every one of them.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import torch
from torchrl.envs import GymWrapper, ParallelEnv, SerialEnv

from benchmarks.throughput.rigs.base import LockstepRig
from benchmarks.throughput.work_env import WorkEnv, Workload


def wrapped_env(turns: int, observation_shape: tuple[int, ...], dtype: str) -> Any:
    env = WorkEnv(turns, observation_shape, dtype)
    return GymWrapper(env, categorical_action_encoding=True)


class TorchRLRig(LockstepRig):
    def __init__(self, kind: Literal["serial", "parallel"]) -> None:
        torch.set_num_threads(1)
        self._kind = kind

    def open(self, workload: Workload) -> None:
        make = functools.partial(wrapped_env, workload.turns, workload.observation_shape, workload.dtype)
        if self._kind == "serial":
            self._envs = SerialEnv(workload.num_envs, make)
        else:
            self._envs = ParallelEnv(workload.num_envs, make, mp_start_method="fork")
        self._state = self._envs.reset()
        self._actions = torch.from_numpy(workload.actions())

    def run(self, rounds: int) -> None:
        with torch.no_grad():
            for _ in range(rounds):
                self._state["action"] = self._actions
                _, self._state = self._envs.step_and_maybe_reset(self._state)

    def close(self) -> None:
        self._envs.close()
