"""Shoal: its defaults on shared memory, or another policy about faults."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

import shoal
from benchmarks.faults.rigs.base import FaultRig, Given, Limits, MakeEnv, all_of

NUM_WORKERS = 2


class ShoalRig(FaultRig):
    def __init__(self, policy: str) -> None:
        self._options: dict[str, Any] = {"on_fault": policy} if policy else {}

    def open(self, make_env: MakeEnv, num_envs: int, limits: Limits) -> None:
        env_fns = [functools.partial(make_env, index) for index in range(num_envs)]
        options = {**self._options, "step_timeout": limits.step_seconds}
        # An older Shoal replaces no worker that grows, and one that replaces no workers replaces none for this.
        can_replace = self._options.get("on_fault") != "raise"
        if limits.worker_megabytes and can_replace and "max_worker_memory" in inspect.signature(shoal.make).parameters:
            options["max_worker_memory"] = limits.worker_megabytes * 1_000_000
        self._envs = shoal.make(env_fns, backend="shm", num_workers=NUM_WORKERS, **options)
        self._num_envs = num_envs

    def reset(self, seed: int) -> Given:
        observations, _ = self._envs.reset(seed=seed)
        return all_of(self._num_envs, observations=observations)

    def step(self, actions: NDArray[np.int64]) -> Given:
        observations, rewards, terminated, truncated, _ = self._envs.step(actions)
        return all_of(
            self._num_envs, observations=observations, rewards=rewards, terminated=terminated, truncated=truncated
        )

    def close(self) -> None:
        self._envs.close()

    def worker_pid(self, env_index: int) -> int:
        return self._envs.worker_pids[env_index * NUM_WORKERS // self._num_envs]
