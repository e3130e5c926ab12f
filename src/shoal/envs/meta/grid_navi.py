"""A walk over a grid to a goal that cannot be seen. ``GridNavi-v0``.

The task is which cell is the goal. Episodes begin in a corner; that cell and the three around it are no goals.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from shoal.envs.chance import below
from shoal.envs.meta.task_list import fractions
from shoal.envs.meta.task_world import (
    NONE_YET,
    TASK_FIELDS,
    WITHOUT_NUMBER,
    GoalRow,
    TaskWorld,
    draw_numbered,
)
from shoal.envs.world_env import WorldEnv
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

STAY, UP, RIGHT, DOWN, LEFT = range(5)
AT_GOAL, ELSEWHERE = 1.0, -0.1


class Grid(NamedTuple):
    """What all rows share."""

    tasks: Array
    cells: Array
    """Where a goal can be."""
    size: int
    elsewhere: float
    """The reward in every other cell."""


def begin_row(grid: Grid, row: Any, info: Any) -> None:
    """Begin in the corner."""
    if row.task == NONE_YET:
        if len(grid.tasks) > 0:
            draw_numbered(grid.tasks, row)
        else:
            cell = below(row, len(grid.cells))
            row.task_x, row.task_y = grid.cells[cell, 0], grid.cells[cell, 1]
            row.task = WITHOUT_NUMBER
    row.x, row.y = 0, 0


def step_row(grid: Grid, row: Any, action: int, info: Any) -> tuple[float, bool]:
    """Go to the next cell, unless the grid ends there."""
    if action == UP:
        row.y = min(row.y + 1, grid.size - 1)
    elif action == RIGHT:
        row.x = min(row.x + 1, grid.size - 1)
    elif action == DOWN:
        row.y = max(row.y - 1, 0)
    elif action == LEFT:
        row.x = max(row.x - 1, 0)
    return AT_GOAL if row.x == row.task_x and row.y == row.task_y else grid.elsewhere, False


def observe_row(grid: Grid, row: Any, observation: Any) -> None:
    """The cell."""
    observation[0], observation[1] = row.x, row.y


class GridNavi(TaskWorld):
    """The world. The first numbered tasks, as many as there are goals, are all different; then they come again.

    Args:
        n_tasks: as for :class:`TaskWorld`, like the next three.
        num_train_tasks: see there.
        num_eval_tasks: see there.
        task_seed: see there.
        num_cells: how wide and how high the grid is.
        is_sparse: whether there is no penalty for being elsewhere.
    """

    fields = (*TASK_FIELDS, ("x", "i8"), ("y", "i8"))
    begin_row, step_row, observe_row = staticmethod(begin_row), staticmethod(step_row), staticmethod(observe_row)
    env_class = GoalRow

    def __init__(
        self,
        n_tasks: int | None = None,
        num_train_tasks: int | None = None,
        num_eval_tasks: int | None = None,
        task_seed: int = 0,
        num_cells: int = 5,
        is_sparse: bool = False,
    ) -> None:
        if isinstance(num_cells, bool) or not isinstance(num_cells, int) or num_cells < 3:
            raise ConfigurationError(f"num_cells must be a whole number of at least 3, got {num_cells!r}")
        every_cell = [(float(x), float(y)) for x in range(num_cells) for y in range(num_cells)]
        self.goals = [(x, y) for x, y in every_cell if max(x, y) > 1]
        """Where a goal can be."""
        self._dealt = sorted(self.goals, key=lambda goal: fractions(task_seed, self.goals.index(goal), 1))
        super().__init__(n_tasks, num_train_tasks, num_eval_tasks, task_seed)
        self.tables = Grid(self.tasks, np.array(self.goals), num_cells, 0.0 if is_sparse else ELSEWHERE)
        self.observation_space = spaces.Box(0.0, num_cells - 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(5)

    def numbered_task(self, number: int) -> tuple[float, float]:
        """The task of that number."""
        return self._dealt[number % len(self._dealt)]

    def is_goal(self, row: Any) -> bool:
        """Whether the row is at its goal."""
        return bool(row.x == row.task_x and row.y == row.task_y)


class GridNaviEnv(GoalRow, WorldEnv):
    """A single one, as an ordinary environment."""

    world_class = GridNavi
