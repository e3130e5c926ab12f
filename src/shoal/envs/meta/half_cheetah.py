"""A cheetah that runs as fast as it is told, or where it is told. ``HalfCheetahVel-v0`` and ``CheetahDir-v0``.

The body is that of Gymnasium's ``HalfCheetah-v5``. As in the literature on meta-RL, the observation ends with where the trunk
is, and moving costs half as much.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from shoal.envs.meta.mujoco_tasks import MujocoTasks
from shoal.envs.meta.task_list import fractions
from shoal.vector.layout import Array

from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv  # isort: skip - without MuJoCo, the line before says so

HIGHEST_SPEED = 3.0
FORWARD, BACKWARD = 1.0, -1.0


class CheetahWithTasks(MujocoTasks, HalfCheetahEnv):
    """What both have in common."""

    def __init__(
        self,
        n_tasks: int | None = None,
        num_train_tasks: int | None = None,
        num_eval_tasks: int | None = None,
        task_seed: int = 0,
        **keywords: Any,
    ) -> None:
        self.set_up_tasks(n_tasks, num_train_tasks, num_eval_tasks, task_seed)
        super().__init__(**{"ctrl_cost_weight": 0.05, **keywords})
        self._trunk = self.model.body("torso").pos.copy()
        self.observation_space = spaces.Box(-np.inf, np.inf, self._get_obs().shape, np.float64)

    def _get_obs(self) -> Array:
        trunk = self._trunk + np.array((self.data.qpos[0], 0.0, self.data.qpos[1]))
        return np.concatenate((super()._get_obs(), trunk))

    def _get_rew(self, x_velocity: float, action: Any) -> tuple[float, dict[str, float]]:
        forward, cost = self.reward_for(x_velocity), self.control_cost(action)
        return forward - cost, {"reward_forward": forward, "reward_ctrl": -cost}

    def reward_for(self, speed: float) -> float:
        """What it is worth to run so fast."""
        raise NotImplementedError


class HalfCheetahVelEnv(CheetahWithTasks):
    """The task is a speed from 0 to 3."""

    def numbered_task(self, task_seed: int, number: int) -> float:
        """The task of that number."""
        return HIGHEST_SPEED * fractions(task_seed, number, 1)[0]

    def any_task(self) -> float:
        """A task drawn from all that are possible."""
        return float(self.np_random.uniform(0.0, HIGHEST_SPEED))

    def reward_for(self, speed: float) -> float:
        """The nearer to the task, the better."""
        assert self.task is not None
        return -abs(speed - self.task)


class CheetahDirEnv(CheetahWithTasks):
    """The task is 1 for forward, or -1 for backward. Of the numbered tasks, every second one is backward."""

    def numbered_task(self, task_seed: int, number: int) -> float:
        """The task of that number."""
        return BACKWARD if number % 2 else FORWARD

    def any_task(self) -> float:
        """One of the two."""
        return BACKWARD if self.np_random.integers(2) else FORWARD

    def reward_for(self, speed: float) -> float:
        """The faster the better."""
        assert self.task is not None
        return self.task * speed
