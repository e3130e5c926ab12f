"""Stable-Baselines3: ``SubprocVecEnv`` with its defaults. A step has no time limit."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import SubprocVecEnv

from benchmarks.faults.rigs.base import FaultRig, Given, Limits, MakeEnv, all_of


class StableBaselines3Rig(FaultRig):
    def open(self, make_env: MakeEnv, num_envs: int, limits: Limits) -> None:
        self._envs = SubprocVecEnv([functools.partial(make_env, index) for index in range(num_envs)])
        self._num_envs = num_envs

    def reset(self, seed: int) -> Given:
        self._envs.seed(seed)
        return all_of(self._num_envs, observations=self._envs.reset())

    def step(self, actions: NDArray[np.int64]) -> Given:
        observations, rewards, dones, _ = self._envs.step(actions)
        return all_of(self._num_envs, observations=observations, rewards=rewards, dones=dones)

    def close(self) -> None:
        self._envs.close()

    def worker_pid(self, env_index: int) -> int:
        return self._envs.processes[env_index].pid or 0
