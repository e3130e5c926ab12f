"""Tianshou: ``SubprocVectorEnv`` and ``ShmemVectorEnv``.

Its time limit belongs to its asynchronous mode: a step gives the results of those who are ready, and the others are left
waiting. The caller goes on with those, as its collector does.
"""

from __future__ import annotations

import functools

import numpy as np
import tianshou.env
from numpy.typing import NDArray
from tianshou.env import BaseVectorEnv

from benchmarks.faults.rigs.base import FaultRig, Given, Limits, MakeEnv


class TianshouRig(FaultRig):
    def __init__(self, kind: str) -> None:
        self._make = getattr(tianshou.env, kind)

    def open(self, make_env: MakeEnv, num_envs: int, limits: Limits) -> None:
        env_fns = [functools.partial(make_env, index) for index in range(num_envs)]
        self._envs: BaseVectorEnv = self._make(env_fns, timeout=limits.step_seconds)
        self._ready = np.arange(num_envs)

    def reset(self, seed: int) -> Given:
        self._envs.seed(seed)
        observations, _ = self._envs.reset()
        self._ready = np.arange(len(observations))
        return Given(self._ready.tolist(), {"observations": np.array(observations)})

    def step(self, actions: NDArray[np.int64]) -> Given:
        # Without a time limit everybody is ready, and the actions are passed on as they came.
        chosen = actions[self._ready] if self._envs.is_async else actions
        observations, rewards, terminated, truncated, infos = self._envs.step(
            chosen, self._ready if self._envs.is_async else None
        )
        env_ids = np.array([info["env_id"] for info in infos])
        fields = {"observations": observations, "rewards": rewards, "terminated": terminated, "truncated": truncated}
        given = Given(env_ids.tolist(), {name: np.array(values) for name, values in fields.items()})
        finished = env_ids[terminated | truncated]
        if finished.size:
            self._envs.reset(finished)
        self._ready = np.sort(env_ids)
        return given

    def close(self) -> None:
        self._envs.close()

    def worker_pid(self, env_index: int) -> int:
        return int(self._envs.workers[env_index].process.pid)
