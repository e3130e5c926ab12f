"""Gymnasium: ``AsyncVectorEnv`` with its defaults."""

from __future__ import annotations

import functools

import numpy as np
from gymnasium.vector import AsyncVectorEnv
from numpy.typing import NDArray

from benchmarks.faults.rigs.base import FaultRig, Given, Limits, MakeEnv, all_of


class GymnasiumRig(FaultRig):
    def open(self, make_env: MakeEnv, num_envs: int, limits: Limits) -> None:
        self._envs = AsyncVectorEnv([functools.partial(make_env, index) for index in range(num_envs)])
        self._num_envs, self._limit = num_envs, limits.step_seconds

    def reset(self, seed: int) -> Given:
        observations, _ = self._envs.reset(seed=seed)
        return all_of(self._num_envs, observations=observations)

    def step(self, actions: NDArray[np.int64]) -> Given:
        if self._limit is None:
            results = self._envs.step(actions)
        else:
            self._envs.step_async(actions)
            results = self._envs.step_wait(timeout=self._limit)
        observations, rewards, terminated, truncated, _ = results
        return all_of(
            self._num_envs, observations=observations, rewards=rewards, terminated=terminated, truncated=truncated
        )

    def close(self) -> None:
        self._envs.close()

    def worker_pid(self, env_index: int) -> int:
        return self._envs.processes[env_index].pid or 0
