"""A robot on a plane with a wind that it does not see. ``Wind-v0``.

The task is the wind, which is added to every step. The goal is always the same.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from shoal.envs.compiling import rule
from shoal.envs.meta.point_robot import LONGEST_STEP, move
from shoal.envs.meta.task_list import fractions
from shoal.envs.meta.task_world import (
    NONE_YET,
    TASK_FIELDS,
    WITHOUT_NUMBER,
    GoalRow,
    TaskWorld,
    draw_numbered,
    two_fractions,
)
from shoal.envs.world_env import WorldEnv
from shoal.vector.layout import Array

STRONGEST_WIND = 0.08  # along each axis
GOAL_X, GOAL_Y = 0.0, 1.0
GOAL_RADIUS = 0.03


class Winds(NamedTuple):
    """What all rows share."""

    tasks: Array


@rule
def wind_of(first: float, second: float) -> tuple[float, float]:
    """A wind in any direction."""
    return STRONGEST_WIND * (2.0 * first - 1.0), STRONGEST_WIND * (2.0 * second - 1.0)


@rule
def is_there(row: Any) -> bool:
    """Whether the robot is at the goal."""
    return math.sqrt((row.x - GOAL_X) ** 2 + (row.y - GOAL_Y) ** 2) <= GOAL_RADIUS


def begin_row(winds: Winds, row: Any, info: Any) -> None:
    """Begin at the origin."""
    if row.task == NONE_YET:
        if len(winds.tasks) > 0:
            draw_numbered(winds.tasks, row)
        else:
            first, second = two_fractions(row)
            row.task_x, row.task_y = wind_of(first, second)
            row.task = WITHOUT_NUMBER
    row.x, row.y = 0.0, 0.0


def step_row(winds: Winds, row: Any, action: Any, info: Any) -> tuple[float, bool]:
    """Go, and be carried along."""
    move(row, action)
    row.x += row.task_x
    row.y += row.task_y
    return 1.0 if is_there(row) else 0.0, False


def observe_row(winds: Winds, row: Any, observation: Any) -> None:
    """Where the robot is."""
    observation[0], observation[1] = row.x, row.y


class Wind(TaskWorld):
    """The world."""

    fields = (*TASK_FIELDS, ("x", "f8"), ("y", "f8"))
    begin_row, step_row, observe_row = staticmethod(begin_row), staticmethod(step_row), staticmethod(observe_row)
    env_class = GoalRow

    def __init__(
        self,
        n_tasks: int | None = None,
        num_train_tasks: int | None = None,
        num_eval_tasks: int | None = None,
        task_seed: int = 0,
    ) -> None:
        super().__init__(n_tasks, num_train_tasks, num_eval_tasks, task_seed)
        self.tables = Winds(self.tasks)
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-LONGEST_STEP, LONGEST_STEP, (2,), np.float32)

    def numbered_task(self, number: int) -> tuple[float, float]:
        """The task of that number."""
        return wind_of(*fractions(self.task_seed, number, 2))

    def is_goal(self, row: Any) -> bool:
        """Whether the row is at the goal."""
        return is_there(row)


class WindEnv(GoalRow, WorldEnv):
    """A single one, as an ordinary environment."""

    world_class = Wind
