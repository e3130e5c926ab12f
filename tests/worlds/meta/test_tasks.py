"""Which task is which: by its number the same everywhere, or drawn, or the same again."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import shoal
from shoal.envs.meta.grid_navi import GridNaviEnv
from shoal.envs.meta.point_robot import PointRobotEnv, PointRobotSparseEnv
from shoal.envs.meta.wind import WindEnv
from tests.scripts import run_script

WORLDS = [PointRobotEnv, PointRobotSparseEnv, WindEnv, GridNaviEnv]


def task_of(env: Any, **reset: Any) -> list[float]:
    env.reset(**reset)
    task: list[float] = env.get_current_task().tolist()
    return task


@pytest.mark.parametrize("env_class", WORLDS)
def test_a_number_means_the_same_task_however_many_there_are_and_whatever_was_drawn(env_class: Any) -> None:
    few, many = env_class(n_tasks=5), env_class(num_train_tasks=40, num_eval_tasks=20)
    many.reset(seed=8)
    np.random.seed(3)
    assert few.n_tasks == len(few.get_all_task_idx()) == 5
    assert many.get_all_task_idx() == range(60)
    for number in range(5):
        assert task_of(few, options={"task": number}) == task_of(many, seed=number, options={"task": number})
    other = env_class(n_tasks=5, task_seed=1)
    assert any(task_of(few, options={"task": n}) != task_of(other, options={"task": n}) for n in range(5))


def test_a_number_means_the_same_task_in_every_process_and_with_compiled_rules_or_plain_ones() -> None:
    code = """
        import os
        os.environ["SHOAL_COMPILE"] = "0"
        import random, numpy
        random.seed(), numpy.random.seed()
        from shoal.envs.meta.point_robot import PointRobotSparseEnv
        print(PointRobotSparseEnv(n_tasks=9).tasks.tobytes().hex())
    """
    assert run_script(code).stdout.strip() == PointRobotSparseEnv(n_tasks=9).tasks.tobytes().hex()


@pytest.mark.parametrize("env_class", WORLDS)
def test_a_reset_without_a_task_keeps_it_and_one_with_none_draws_another(env_class: Any) -> None:
    env = env_class()
    first = task_of(env, seed=0)
    assert task_of(env) == task_of(env, options={}) == task_of(env, seed=5) == first
    drawn = [task_of(env, seed=seed, options={"task": None}) for seed in range(20)]
    assert len(set(map(tuple, drawn))) > 8
    assert drawn == [task_of(env_class(), seed=seed) for seed in range(20)], "a seed decides about it"


@pytest.mark.parametrize("env_class", WORLDS)
def test_with_numbered_tasks_one_of_them_is_drawn(env_class: Any) -> None:
    env = env_class(n_tasks=3)
    numbered = {tuple(task_of(env, options={"task": number})) for number in range(3)}
    assert {tuple(task_of(env, seed=seed, options={"task": None})) for seed in range(30)} == numbered


def test_drawn_tasks_are_spread_over_all_that_are_possible() -> None:
    with shoal.make("shoal/PointRobot-v0", 2000, backend="serial") as envs:
        envs.reset(seed=0)
        tasks = np.array(envs.call("get_current_task"))
    assert np.abs(tasks).max() <= 1
    assert np.abs(tasks.mean(axis=0)).max() < 5 * 2 / np.sqrt(12 * 2000)  # five standard errors
    assert (tasks.max(axis=0) - tasks.min(axis=0)).min() > 1.98
    with shoal.make("shoal/GridNavi-v0", 2000, backend="serial") as envs:
        envs.reset(seed=0)
        cells, counts = np.unique(envs.call("get_current_task"), axis=0, return_counts=True)
    assert len(cells) == 21
    assert cells.max(axis=1).min() == 2, "neither the corner nor the cells around it"
    assert counts.min() > 2000 / 21 - 5 * np.sqrt(2000 / 21)


def test_goals_of_the_semi_circle_lie_on_it() -> None:
    tasks = PointRobotSparseEnv(n_tasks=200).tasks
    np.testing.assert_allclose(np.linalg.norm(tasks, axis=1), 1.0)
    angles = np.arctan2(tasks[:, 1], tasks[:, 0])
    assert angles.min() >= 0
    assert np.ptp(angles) > 3.0


def test_the_first_numbered_goals_of_a_grid_are_all_different_and_then_come_again() -> None:
    tasks = GridNaviEnv(n_tasks=30).tasks
    assert len(np.unique(tasks[:21], axis=0)) == 21
    assert (tasks[21:] == tasks[:9]).all()


@pytest.mark.parametrize("env_class", WORLDS)
def test_a_task_can_be_given_beforehand_or_set_as_what_it_is(env_class: Any) -> None:
    env = env_class(n_tasks=4)
    with pytest.raises(shoal.ResetNeeded, match="there is no task yet"):
        env.get_current_task()
    env.reset_task(2)
    assert task_of(env) == env.tasks[2].tolist()
    env.set_goal([0.25, 0.5])
    assert task_of(env) == [0.25, 0.5]
    env.reset_task(None)
    assert task_of(env) in env.tasks.tolist()


@pytest.mark.parametrize("task", [-1, 4, 1.5, "one", True])
def test_a_task_that_does_not_exist_is_refused(task: Any) -> None:
    with pytest.raises(shoal.ConfigurationError, match="a task is a number from 0 to 3, or None to draw one, got"):
        WindEnv(n_tasks=4).reset(options={"task": task})


def test_a_number_where_tasks_have_none_is_refused_with_what_to_do() -> None:
    with pytest.raises(shoal.ConfigurationError, match=r"no task 7: these tasks have no numbers.*n_tasks="):
        WindEnv().reset(options={"task": 7})


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"n_tasks": 0}, "n_tasks must be a whole number of at least 1, or None, got 0"),
        ({"num_train_tasks": 2.5}, "num_train_tasks must be a whole number"),
        ({"num_eval_tasks": True}, "num_eval_tasks must be a whole number"),
        ({"n_tasks": 9, "num_train_tasks": 4, "num_eval_tasks": 4}, "8 together: leave n_tasks out"),
        ({"num_task": 9}, "has no option 'num_task'"),
    ],
)
def test_task_counts_that_cannot_be_are_refused(keywords: Any, said: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=said):
        WindEnv(**keywords)


def test_without_training_tasks_those_for_evaluation_are_drawn_too() -> None:
    assert WindEnv(num_eval_tasks=20).n_tasks is None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: GridNaviEnv(num_cells=2), "num_cells must be a whole number of at least 3, got 2"),
        (lambda: PointRobotSparseEnv(goal_radius=0), "goal_radius must be greater than 0, got 0"),
        (lambda: begun(PointRobotEnv()).set_goal([1.0]), r"the goal of a PointRobot is two numbers, got \[1.0\]"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, said: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=said):
        make()


def begun(env: Any) -> Any:
    env.reset()
    return env


@pytest.mark.parametrize(
    ("name", "steps"), [("PointRobot", 60), ("PointRobotSparse", 60), ("Wind", 75), ("GridNavi", 15)]
)
def test_episodes_are_as_long_as_they_are_known_to_be(name: str, steps: int) -> None:
    env = gymnasium.make(f"shoal/{name}-v0")
    env.reset(seed=0)
    truncated = [env.step(env.action_space.sample())[3] for _ in range(steps)]
    assert truncated == [False] * (steps - 1) + [True]
