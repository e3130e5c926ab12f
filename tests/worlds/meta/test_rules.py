"""The rules of the task worlds, against the same rules written down a second time, and against cases done by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.envs.meta.grid_navi import GridNaviEnv
from shoal.envs.meta.point_robot import PointRobotEnv, PointRobotSparseEnv
from shoal.envs.meta.wind import WindEnv
from shoal.envs.world_env import WorldEnv

number = st.floats(-0.3125, 0.3125, width=32)
moves = st.lists(st.tuples(number, number), min_size=1, max_size=20)
goals = st.tuples(st.floats(-1, 1), st.floats(-1, 1))


def begun(env: Any, goal: Any) -> Any:
    env.reset(seed=0)
    env.set_goal(goal)
    return env.reset()[0]


@given(goal=goals, actions=moves)
def test_a_point_robot_goes_where_it_is_told_and_is_paid_by_its_distance(goal: Any, actions: Any) -> None:
    env, place = PointRobotEnv(), np.zeros(2)
    assert begun(env, goal).tolist() == [0.0, 0.0]
    for action in np.array(actions, np.float32):
        place = place + np.clip(action, -0.1, 0.1)
        observation, reward, terminated, truncated, info = env.step(action)
        np.testing.assert_allclose(observation, place, atol=1e-6)
        assert reward == pytest.approx(-np.linalg.norm(place - goal), abs=1e-6)
        assert (terminated, truncated, info) == (False, False, {})


@given(goal=goals, actions=moves, radius=st.floats(0.05, 1.0))
def test_a_sparse_point_robot_is_paid_near_its_goal_only(goal: Any, actions: Any, radius: float) -> None:
    env = PointRobotSparseEnv(starts_at_origin=True, goal_radius=radius)
    place = np.zeros(2)
    begun(env, goal)
    for action in np.array(actions, np.float32):
        place = place + np.clip(action, -0.1, 0.1)
        _, reward, _, _, info = env.step(action)
        distance = np.linalg.norm(place - goal)
        if abs(distance - radius) > 1e-6:  # where the last bit decides, either is right
            assert reward == info["sparse_reward"] == float(distance <= radius)
            assert env.is_goal_state() == (distance <= radius)


@given(wind=st.tuples(st.floats(-0.08, 0.08), st.floats(-0.08, 0.08)), actions=moves)
def test_a_wind_is_added_to_every_step(wind: Any, actions: Any) -> None:
    env, place = WindEnv(), np.zeros(2)
    begun(env, wind)
    for action in np.array(actions, np.float32):
        place = place + np.clip(action, -0.1, 0.1) + wind
        observation, reward, *_ = env.step(action)
        np.testing.assert_allclose(observation, place, atol=1e-6)
        distance = np.linalg.norm(place - (0, 1))
        if abs(distance - 0.03) > 1e-6:
            assert reward == float(distance <= 0.03) == float(env.is_goal_state())


def test_against_no_wind_ten_steps_lead_to_the_goal() -> None:
    env = WindEnv()
    begun(env, (0.0, 0.0))
    rewards = [env.step(np.array([0.0, 0.1], np.float32))[1] for _ in range(11)]
    assert rewards == [0.0] * 9 + [1.0, 0.0]


STEPS = {0: (0, 0), 1: (0, 1), 2: (1, 0), 3: (0, -1), 4: (-1, 0)}


@given(goal=st.integers(0, 20), actions=st.lists(st.integers(0, 4), max_size=30), is_sparse=st.booleans())
def test_a_walk_over_the_grid(goal: int, actions: list[int], is_sparse: bool) -> None:
    env = GridNaviEnv(n_tasks=21, is_sparse=is_sparse)
    observation, _ = env.reset(options={"task": goal})
    place = np.zeros(2)
    assert observation.tolist() == [0.0, 0.0]
    for action in actions:
        place = np.clip(place + STEPS[action], 0, 4)
        observation, reward, terminated, truncated, _ = env.step(action)
        is_there = (place == env.get_current_task()).all()
        assert observation.tolist() == place.tolist()
        assert reward == (1.0 if is_there else 0.0 if is_sparse else -0.1)
        assert env.is_goal_state() == is_there
        assert not terminated
        assert not truncated


def test_who_knows_the_goal_gets_the_return_that_is_known_from_its_distance() -> None:
    """The first of them after as many steps as the goal is away: 16.1 - 1.1 d in 15 steps; 11.1 on average over all goals."""
    env, returns = GridNaviEnv(n_tasks=21), []
    for task in range(21):
        env.reset(options={"task": task})
        x, y = env.get_current_task().astype(int)
        way = [2] * x + [1] * y + [0] * (15 - x - y)
        returns.append(sum(env.step(action)[1] for action in way))
        assert returns[-1] == pytest.approx(16.1 - 1.1 * (x + y))
    assert np.mean(returns) == pytest.approx(16.1 - 1.1 * 96 / 21)


def test_a_sparse_point_robot_begins_around_its_goals_or_at_the_origin() -> None:
    env = PointRobotSparseEnv()
    places = np.array([env.reset(seed=seed)[0] for seed in range(500)])
    assert (places >= (-1.5, -0.5)).all()
    assert (places <= (1.5, 1.5)).all()
    assert (places.max(axis=0) - places.min(axis=0) > (2.9, 1.9)).all()
    assert PointRobotSparseEnv(starts_at_origin=True).reset(seed=1)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("env_class", [PointRobotEnv, PointRobotSparseEnv, WindEnv])
def test_a_step_is_no_longer_than_it_may_be(env_class: type[WorldEnv]) -> None:
    env: Any = env_class()
    begun(env, (0.0, 0.0))
    before = env.row.x, env.row.y
    env.step(np.array([5.0, -5.0], np.float32))
    assert (env.row.x - before[0], env.row.y - before[1]) == pytest.approx((0.1, -0.1))


def test_only_worlds_with_a_goal_know_whether_they_are_there() -> None:
    assert not hasattr(PointRobotEnv(), "is_goal_state")
    assert hasattr(WindEnv(), "is_goal_state")
