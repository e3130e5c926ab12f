"""TorchRL: ``ParallelEnv`` over ``GymWrapper``, with one callable and one torch thread, as its documentation advises."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torchrl.envs import GymWrapper, ParallelEnv

from benchmarks.faults.rigs.base import FaultRig, Given, Limits, MakeEnv, all_of


def wrapped(make_env: MakeEnv, index: int) -> Any:
    return GymWrapper(make_env(index), categorical_action_encoding=True)


class TorchRLRig(FaultRig):
    def __init__(self) -> None:
        torch.set_num_threads(1)

    def open(self, make_env: MakeEnv, num_envs: int, limits: Limits) -> None:
        keywords = [{"make_env": make_env, "index": index} for index in range(num_envs)]
        self._envs: Any = ParallelEnv(num_envs, wrapped, create_env_kwargs=keywords)
        self._num_envs, self._limit = num_envs, limits.step_seconds

    def reset(self, seed: int) -> Given:
        self._envs.set_seed(seed)
        self._state = self._envs.reset()
        if self._limit is not None:
            # The environment variable of this name would limit the start of the workers too.
            self._envs.BATCHED_PIPE_TIMEOUT = self._limit
        return all_of(self._num_envs, observations=self._state["observation"])

    def step(self, actions: NDArray[np.int64]) -> Given:
        self._state["action"] = torch.from_numpy(actions)
        result, self._state = self._envs.step_and_maybe_reset(self._state)
        step = result["next"]
        return all_of(
            self._num_envs,
            observations=step["observation"],
            rewards=step["reward"],
            terminated=step["terminated"],
            truncated=step["truncated"],
        )

    def close(self) -> None:
        self._envs.close()

    def worker_pid(self, env_index: int) -> int:
        return int(self._envs._workers[env_index].pid)
