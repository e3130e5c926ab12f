"""Tasks for Gymnasium's MuJoCo environments, and a state from which they go on exactly.

Tasks are given as in the other worlds: ``reset(options={"task": ...})``, ``reset_task`` and the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled

from shoal.envs.meta.task_list import checked, number_of_tasks
from shoal.vector.errors import ConfigurationError, ResetNeeded
from shoal.vector.layout import Array

try:
    import mujoco
    from gymnasium.envs.mujoco.mujoco_env import MujocoEnv
except (ModuleNotFoundError, DependencyNotInstalled):
    raise ModuleNotFoundError(
        "this environment needs MuJoCo, which is not installed: pip install 'shoal[mujoco]'", name="mujoco"
    ) from None

State = dict[str, Any]


class MujocoTasks(MujocoEnv):
    """What makes a MuJoCo environment one with tasks. A task is one number, such as a speed.

    A subclass says which task has which number, and how one is drawn.
    """

    takes_task_option = True
    """Whether ``reset`` takes ``options={"task": ...}``."""
    task_dim = 1
    """How many numbers a task is."""
    task: float | None = None
    """Nothing if the next reset draws one."""

    def set_up_tasks(
        self, n_tasks: int | None, num_train_tasks: int | None, num_eval_tasks: int | None, task_seed: int
    ) -> None:
        """Make the numbered tasks; by default there are none."""
        self.n_tasks = number_of_tasks(n_tasks, num_train_tasks, num_eval_tasks)
        self.tasks = [self.numbered_task(task_seed, number) for number in range(self.n_tasks or 0)]

    def numbered_task(self, task_seed: int, number: int) -> float:
        """The task of that number."""
        raise NotImplementedError

    def any_task(self) -> float:
        """A task drawn from all that are possible, with the environment's random numbers."""
        raise NotImplementedError

    def get_all_task_idx(self) -> range:
        """The numbers of all numbered tasks."""
        return range(self.n_tasks or 0)

    def reset_task(self, task: int | None = None) -> None:
        """Let this be the task from the next ``reset`` on; ``None``: one that is drawn then."""
        self.task = None if task is None else self.tasks[checked(task, self.n_tasks)]

    def get_current_task(self) -> Array:
        """The task, as an array of one number."""
        if self.task is None:
            raise ResetNeeded("there is no task yet: it is drawn by the next reset()")
        return np.array([self.task])

    def set_goal(self, goal: Any) -> None:
        """Let this be the task, whether there is one like it or not."""
        task = np.asarray(goal, dtype=np.float64).reshape(-1)
        if task.shape != (1,) or not np.isfinite(task).all():
            raise ConfigurationError(f"the goal of a {type(self).__name__} is one number, got {goal!r}")
        self.task = float(task[0])

    def reset(self, *, seed: int | None = None, options: State | None = None) -> tuple[Array, State]:
        """Begin an episode. ``options={"task": ...}`` gives a task; otherwise it is the same again."""
        if options and "task" in options:
            self.reset_task(options["task"])
        result: tuple[Array, State] = super().reset(seed=seed, options=options)
        return result

    def reset_model(self) -> Array:
        """Draw a task if there is none, and put everything where it begins."""
        if self.task is None:
            number = len(self.tasks)
            self.task = self.tasks[int(self.np_random.integers(number))] if number else self.any_task()
        observation: Array = super().reset_model()
        return observation

    # -- where it is, for whoever brings it back -----------------------------------------------------------------

    def get_state(self) -> tuple[float | None, Array]:
        """The task, and everything from which the simulation goes on."""
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.zeros(mujoco.mj_stateSize(self.model, kind))
        mujoco.mj_getState(self.model, self.data, state, kind)
        return self.task, state

    def set_state(self, qpos: Any, qvel: Any = None) -> None:
        """Go on from what :meth:`get_state` has returned; or, as in Gymnasium, from positions and speeds."""
        if qvel is not None:
            super().set_state(qpos, qvel)
            return
        self.task, state = qpos
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        mujoco.mj_setState(self.model, self.data, state, kind)
        mujoco.mj_forward(self.model, self.data)  # for pictures
        mujoco.mj_setState(self.model, self.data, state, kind)  # without what that has left
