"""A robot on a plane that goes to a goal it does not see. ``PointRobot-v0`` and ``PointRobotSparse-v0``.

The task is where the goal is. In the first world the reward says how far it is; in the second, the semi-circle, there is a
reward only near the goal, which is somewhere on half a circle around the origin.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from shoal.envs.chance import uniform
from shoal.envs.compiling import rule
from shoal.envs.meta.task_list import fractions
from shoal.envs.meta.task_world import (
    NONE_YET,
    TASK_FIELDS,
    WITHOUT_NUMBER,
    GoalRow,
    TaskRow,
    TaskWorld,
    draw_numbered,
    two_fractions,
)
from shoal.envs.world_env import WorldEnv
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

LONGEST_STEP = 0.1  # along each axis
GOAL_RADIUS = 0.2


class Plane(NamedTuple):
    """What all rows of the first world share."""

    tasks: Array


class HalfCircle(NamedTuple):
    """What all rows of the second world share."""

    tasks: Array
    goal_radius: float
    starts_at_origin: bool


@rule
def move(row: Any, action: Any) -> None:
    """Go by the action, and no further than is possible."""
    row.x += min(max(action[0], -LONGEST_STEP), LONGEST_STEP)
    row.y += min(max(action[1], -LONGEST_STEP), LONGEST_STEP)


@rule
def distance(row: Any) -> float:
    """To the goal."""
    return math.sqrt((row.x - row.task_x) ** 2 + (row.y - row.task_y) ** 2)


@rule
def in_square(first: float, second: float) -> tuple[float, float]:
    """A goal in the square from -1 to 1."""
    return 2.0 * first - 1.0, 2.0 * second - 1.0


@rule
def on_half_circle(first: float, second: float) -> tuple[float, float]:
    """A goal on the upper half of the unit circle. The second number decides nothing."""
    return math.cos(math.pi * first), math.sin(math.pi * first)


def begin_row(plane: Plane, row: Any, info: Any) -> None:
    """Begin at the origin."""
    if row.task == NONE_YET:
        if len(plane.tasks) > 0:
            draw_numbered(plane.tasks, row)
        else:
            first, second = two_fractions(row)
            row.task_x, row.task_y = in_square(first, second)
            row.task = WITHOUT_NUMBER
    row.x, row.y = 0.0, 0.0


def step_row(plane: Plane, row: Any, action: Any, info: Any) -> tuple[float, bool]:
    """The nearer the goal, the better."""
    move(row, action)
    return -distance(row), False


def begin_sparse_row(half_circle: HalfCircle, row: Any, info: Any) -> None:
    """Begin somewhere around the half circle, or at the origin."""
    if row.task == NONE_YET:
        if len(half_circle.tasks) > 0:
            draw_numbered(half_circle.tasks, row)
        else:
            first, second = two_fractions(row)
            row.task_x, row.task_y = on_half_circle(first, second)
            row.task = WITHOUT_NUMBER
    if half_circle.starts_at_origin:
        row.x, row.y = 0.0, 0.0
    else:
        row.x, row.y = 3.0 * uniform(row) - 1.5, 2.0 * uniform(row) - 0.5
    info.sparse_reward = 0.0


def step_sparse_row(half_circle: HalfCircle, row: Any, action: Any, info: Any) -> tuple[float, bool]:
    """Only near the goal it is good."""
    move(row, action)
    info.sparse_reward = 1.0 if distance(row) <= half_circle.goal_radius else 0.0
    return info.sparse_reward, False


def observe_row(plane: Any, row: Any, observation: Any) -> None:
    """Where the robot is."""
    observation[0], observation[1] = row.x, row.y


class PointRobot(TaskWorld):
    """The world. Its goals are in the square from -1 to 1."""

    fields = (*TASK_FIELDS, ("x", "f8"), ("y", "f8"))
    begin_row, step_row, observe_row = staticmethod(begin_row), staticmethod(step_row), staticmethod(observe_row)

    def __init__(
        self,
        n_tasks: int | None = None,
        num_train_tasks: int | None = None,
        num_eval_tasks: int | None = None,
        task_seed: int = 0,
    ) -> None:
        super().__init__(n_tasks, num_train_tasks, num_eval_tasks, task_seed)
        self.tables = Plane(self.tasks)
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-LONGEST_STEP, LONGEST_STEP, (2,), np.float32)

    def numbered_task(self, number: int) -> tuple[float, float]:
        """The task of that number."""
        return in_square(*fractions(self.task_seed, number, 2))


class PointRobotSparse(TaskWorld):
    """The world. Its goals are on half a circle.

    Args:
        n_tasks: as for :class:`TaskWorld`, like the next three.
        num_train_tasks: see there.
        num_eval_tasks: see there.
        task_seed: see there.
        goal_radius: how near to the goal there is a reward.
        starts_at_origin: whether episodes begin there, as in VariBAD; otherwise anywhere around, as in pomdp-baselines.
    """

    fields = (*TASK_FIELDS, ("x", "f8"), ("y", "f8"))
    infos = (("sparse_reward", "f8"),)
    begin_row, step_row = staticmethod(begin_sparse_row), staticmethod(step_sparse_row)
    observe_row = staticmethod(observe_row)
    env_class = GoalRow

    def __init__(
        self,
        n_tasks: int | None = None,
        num_train_tasks: int | None = None,
        num_eval_tasks: int | None = None,
        task_seed: int = 0,
        goal_radius: float = GOAL_RADIUS,
        starts_at_origin: bool = False,
    ) -> None:
        super().__init__(n_tasks, num_train_tasks, num_eval_tasks, task_seed)
        if not goal_radius > 0:
            raise ConfigurationError(f"goal_radius must be greater than 0, got {goal_radius!r}")
        self.tables = HalfCircle(self.tasks, float(goal_radius), bool(starts_at_origin))
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-LONGEST_STEP, LONGEST_STEP, (2,), np.float32)

    def numbered_task(self, number: int) -> tuple[float, float]:
        """The task of that number."""
        return on_half_circle(*fractions(self.task_seed, number, 2))

    def is_goal(self, row: Any) -> bool:
        """Whether the row is near its goal."""
        radius: float = self.tables.goal_radius
        return distance(row) <= radius


class PointRobotEnv(TaskRow, WorldEnv):
    """A single one, as an ordinary environment."""

    world_class = PointRobot


class PointRobotSparseEnv(GoalRow, WorldEnv):
    """A single one, as an ordinary environment."""

    world_class = PointRobotSparse
