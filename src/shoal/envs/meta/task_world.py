"""Worlds whose task is two numbers: a goal, or a wind. Every row has a task of its own.

::

    reset(options={"task": 7})       the numbered task 7
    reset(options={"task": None})    a task that is drawn: one of the numbered ones if there are any, or any other
    reset()                          the same task again; the first one of a row is drawn
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.envs.chance import below, uniform
from shoal.envs.compiling import rule
from shoal.envs.meta.task_list import checked, number_of_tasks
from shoal.envs.world import UNLIMITED, World
from shoal.envs.world_env import RowEnv
from shoal.vector.errors import ConfigurationError, ResetNeeded
from shoal.vector.layout import Array

TASK_FIELDS = (("task", "i8"), ("task_x", "f8"), ("task_y", "f8"))
"""Which task, and what it is. ``task`` is its number plus 1, or :data:`NONE_YET`, or :data:`WITHOUT_NUMBER`."""
NONE_YET, WITHOUT_NUMBER = 0, -1


@rule
def draw_numbered(tasks: Any, row: Any) -> None:
    """One of these tasks becomes the row's."""
    number = below(row, len(tasks))
    row.task, row.task_x, row.task_y = number + 1, tasks[number, 0], tasks[number, 1]


@rule
def two_fractions(row: Any) -> tuple[float, float]:
    """What a task is drawn from, where tasks have no numbers."""
    first = uniform(row)
    return first, uniform(row)


class TaskRow(RowEnv):
    """A row that can be given tasks."""

    takes_task_option = True
    """Whether ``reset`` takes ``options={"task": ...}``."""

    @property
    def _max_episode_steps(self) -> int:
        """How long an episode is. Learners of the literature ask for it by this name."""
        if self._rows.limit == UNLIMITED:
            raise AttributeError(f"{self} has no time limit")
        return self._rows.limit

    def reset_task(self, task: int | None = None) -> None:
        """Let this be the task from the next ``reset`` on; ``None``: one that is drawn then."""
        self.world.take_options(self.row, {"task": task})

    def get_current_task(self) -> Array:
        """The task, as two numbers."""
        row = self.row
        if row.task == NONE_YET:
            raise ResetNeeded("there is no task yet: it is drawn by the next reset()")
        return np.array([row.task_x, row.task_y])

    def set_goal(self, goal: Any) -> None:
        """Let this be the task, whether there is one like it or not."""
        task = np.asarray(goal, dtype=np.float64)
        if task.shape != (2,) or not np.isfinite(task).all():
            raise ConfigurationError(f"the goal of a {type(self.world).__name__} is two numbers, got {goal!r}")
        row = self.row
        row.task, row.task_x, row.task_y = WITHOUT_NUMBER, task[0], task[1]


class GoalRow(TaskRow):
    """A row that knows when it has got where it should."""

    def is_goal_state(self) -> bool:
        """Whether it is there now."""
        return bool(self.world.is_goal(self.row))  # type: ignore[attr-defined]


class TaskWorld(World):
    """A world with tasks.

    Args:
        n_tasks: how many numbered tasks there are; by default none, and every task is drawn from all that are possible.
        num_train_tasks: with ``num_eval_tasks``, another way to say how many there are.
        num_eval_tasks: those for evaluation; by convention the last ones.
        task_seed: decides about the numbered tasks, and about nothing else.
    """

    start_fields = ("task", "task_x", "task_y")
    env_class = TaskRow
    task_dim = 2
    """How many numbers a task is."""

    def __init__(
        self,
        n_tasks: int | None = None,
        num_train_tasks: int | None = None,
        num_eval_tasks: int | None = None,
        task_seed: int = 0,
    ) -> None:
        self.n_tasks = number_of_tasks(n_tasks, num_train_tasks, num_eval_tasks)
        self.task_seed = task_seed
        self.tasks = np.array([self.numbered_task(number) for number in range(self.n_tasks or 0)]).reshape(-1, 2)
        """The numbered tasks."""

    def numbered_task(self, number: int) -> tuple[float, float]:
        """The task of that number."""
        raise NotImplementedError

    def get_all_task_idx(self) -> range:
        """The numbers of all numbered tasks."""
        return range(self.n_tasks or 0)

    def take_options(self, row: Any, options: dict[str, Any]) -> None:
        """``{"task": number}`` or ``{"task": None}``."""
        if "task" not in options:
            return
        if options["task"] is None:
            row.task = NONE_YET
        else:
            number = checked(options["task"], self.n_tasks)
            row.task, (row.task_x, row.task_y) = number + 1, self.tasks[number]
