"""PufferLib 3: ``Multiprocessing`` over its emulation of Gymnasium environments, two to a worker. A step has no time limit."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pufferlib.emulation
import pufferlib.vector
from numpy.typing import NDArray

from benchmarks.faults.rigs.base import FaultRig, Given, Limits, MakeEnv, all_of

NUM_WORKERS = 2


class PufferLibRig(FaultRig):
    def open(self, make_env: MakeEnv, num_envs: int, limits: Limits) -> None:
        creators = [
            functools.partial(pufferlib.emulation.GymnasiumPufferEnv, env_creator=functools.partial(make_env, index))
            for index in range(num_envs)
        ]
        self._envs: Any = pufferlib.vector.make(
            creators,
            env_args=[[] for _ in creators],
            env_kwargs=[{} for _ in creators],
            num_envs=num_envs,
            backend=pufferlib.vector.Multiprocessing,
            num_workers=NUM_WORKERS,
            batch_size=num_envs,
            # Hyper-threads are usable cores too; PufferLib wants to be asked before it uses them.
            overwork=True,
        )
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
        return self._envs.processes[env_index * NUM_WORKERS // self._num_envs].pid or 0
