"""An ant that runs where it is told. ``AntDir-v0``.

The body is that of Gymnasium's ``Ant-v5``, without contact forces in the observation. The task is an angle in radians.

Without numbered tasks the angle is -1 or 1, as in the programs that this world comes from: the two directions are about 115
degrees apart, not 180. With them it is any angle.
"""

from __future__ import annotations

import math
from typing import Any

from shoal.envs.meta.mujoco_tasks import MujocoTasks
from shoal.envs.meta.task_list import fractions
from shoal.vector.layout import Array

from gymnasium.envs.mujoco.ant_v5 import AntEnv  # isort: skip - without MuJoCo, the line before says so


class AntDirEnv(MujocoTasks, AntEnv):
    """The ant."""

    def __init__(
        self,
        n_tasks: int | None = None,
        num_train_tasks: int | None = None,
        num_eval_tasks: int | None = None,
        task_seed: int = 0,
        **keywords: Any,
    ) -> None:
        self.set_up_tasks(n_tasks, num_train_tasks, num_eval_tasks, task_seed)
        super().__init__(**{"include_cfrc_ext_in_observation": False, **keywords})

    def numbered_task(self, task_seed: int, number: int) -> float:
        """The task of that number."""
        return 2.0 * math.pi * fractions(task_seed, number, 1)[0]

    def any_task(self) -> float:
        """One of the two directions."""
        return -1.0 if self.np_random.integers(2) else 1.0

    def step(self, action: Any) -> tuple[Array, Any, bool, bool, dict[str, Any]]:
        """The faster in the direction of the task, the better. Falling over ends the episode."""
        assert self.task is not None
        before = self.data.qpos[:2].copy()
        self.do_simulation(action, self.frame_skip)
        x_velocity, y_velocity = (self.data.qpos[:2] - before) / self.dt
        forward = x_velocity * math.cos(self.task) + y_velocity * math.sin(self.task)
        reward, parts = self._get_rew(forward, action)
        if self.render_mode == "human":
            self.render()
        info = {"x_velocity": x_velocity, "y_velocity": y_velocity, **parts}
        return self._get_obs(), float(reward), bool(not self.is_healthy), False, info
