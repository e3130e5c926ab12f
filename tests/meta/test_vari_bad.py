"""Several episodes as one: every convention of VariBAD and pomdp-baselines that somebody may rely on."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

import shoal
from shoal.envs.meta.grid_navi import GridNaviEnv
from shoal.meta import VariBadWrapper, make_env
from tests.meta.envs import Counting, OldTasks, Taskless

NOTHING = np.zeros(2, np.float32)


def run(env: Any, actions: Any = NOTHING) -> list[Any]:
    """Steps until the task is over."""
    steps = [env.step(actions)]
    while not steps[-1][2]:
        steps.append(env.step(actions))
    return steps


def test_only_the_last_episode_ends_the_task_and_nothing_is_truncated() -> None:
    env = VariBadWrapper(Counting(), 3)
    env.reset(task=0)
    steps = run(env)
    assert [step[2] for step in steps] == [False] * 8 + [True]
    assert [step[3] for step in steps] == [False] * 9
    assert [step[4]["done_mdp"] for step in steps] == [False, False, True] * 3
    assert (env.episode_count, env.step_count_bamdp) == (3, 9)


def test_an_inner_end_shows_the_last_observation_and_hands_the_first_one_of_the_next_in_the_info() -> None:
    env = VariBadWrapper(Counting(), 2)
    first, _ = env.reset(task=0)
    steps = run(env)
    assert first.tolist() == [0, 0, 0]
    assert [step[0].tolist() for step in steps] == [[0, 1, 0], [0, 2, 0], [0, 3, 1], [1, 1, 0], [1, 2, 0], [1, 3, 1]]
    assert steps[2][4]["start_state"].tolist() == [1, 0, 0]
    assert [number for number, step in enumerate(steps) if "start_state" in step[4]] == [2]


def test_an_inner_episode_keeps_the_task_and_a_reset_begins_to_count_anew() -> None:
    env = VariBadWrapper(Counting(), 2)
    env.reset(task=3)
    assert len(run(env)) == 12
    assert env.get_current_task().tolist() == [3, -3]
    env.reset(options={"task": 1})
    assert (env.episode_count, env.step_count_bamdp, env.done_mdp) == (0, 0, False)
    assert len(run(env)) == 8
    env.reset(task=0)
    env.step(NOTHING)
    observation, _ = env.reset(task=0)
    assert observation.tolist() == [5, 0, 0]
    assert len(run(env)) == 6, "a task that was left in the middle leaves nothing behind"


@pytest.mark.parametrize(
    ("episodes", "add_done_info", "is_added"), [(1, None, False), (2, None, True), (1, True, True), (2, False, False)]
)
def test_the_flag_is_there_where_there_are_several_episodes_or_where_it_is_wanted(
    episodes: int, add_done_info: bool | None, is_added: bool
) -> None:
    env = VariBadWrapper(Counting(), episodes, add_done_info=add_done_info)
    observation, _ = env.reset(task=0)
    assert observation.shape == env.observation_space.shape == ((3,) if is_added else (2,))
    assert observation.dtype == np.float32
    if is_added:
        assert (env.observation_space.low[-1], env.observation_space.high[-1]) == (0, 1)  # type: ignore[attr-defined]
        assert run(env)[-1][0][-1] == 1.0


def test_an_oracle_sees_the_task_before_the_flag_and_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"the agent is told the task.*an MDP, not a POMDP"):
        env = VariBadWrapper(Counting(), 2, oracle=True)
    assert env.reset(task=5)[0].tolist() == [0, 0, 5, -5, 0]
    assert env.observation_space.shape == (5,)
    assert env.step(NOTHING)[0].tolist() == [0, 1, 5, -5, 0]
    assert env.observation_space.contains(env.step(NOTHING)[0])


@pytest.mark.parametrize(("horizon", "steps"), [("pomdp-baselines", 18), ("varibad", 20)])
def test_the_horizon_counts_steps_or_dummy_steps_too(horizon: Any, steps: int) -> None:
    assert VariBadWrapper(Counting(), 3, horizon=horizon).horizon_bamdp == steps


def test_the_horizon_is_that_of_a_time_limit_if_there_is_one() -> None:
    assert VariBadWrapper(TimeLimit(Counting(), 4), 3).horizon_bamdp == 12
    assert make_env("GridNavi-v0", 4).horizon_bamdp == 60
    assert VariBadWrapper(GridNaviEnv(max_episode_steps=9), 4).horizon_bamdp == 36
    with pytest.raises(shoal.ConfigurationError, match="no time limit.*max_episode_steps="):
        _ = VariBadWrapper(OldTasks(), 1).horizon_bamdp
    with pytest.raises(shoal.ConfigurationError, match="no time limit"):
        _ = VariBadWrapper(GridNaviEnv(), 1).horizon_bamdp


def test_the_end_by_a_time_limit_is_told_apart_from_an_end_in_the_environment() -> None:
    env = VariBadWrapper(TimeLimit(Counting(), 4), 1)
    env.reset(task=3)
    assert run(env)[-1][4]["TimeLimit.truncated"] is True
    env.reset(task=0)
    assert "TimeLimit.truncated" not in run(env)[-1][4]


def test_actions_from_minus_one_to_one_are_rescaled_and_clipped() -> None:
    env = VariBadWrapper(Counting(), 1)
    env.reset(task=3)
    assert env.action_space == spaces.Box(-1.0, 1.0, (2,), np.float32)
    for action in ([-1, -1], [0, 0], [1, 0.5], [-3, 7]):
        env.step(np.array(action, np.float32))
    assert env.unwrapped.actions == [[0, -2], [0.5, 0], [1, 1], [0, 2]]  # type: ignore[attr-defined]


def test_the_action_space_may_be_left_as_it_is_said_to_be() -> None:
    env = VariBadWrapper(Counting(), 1, actions="pomdp-baselines")
    assert env.action_space == Counting.action_space
    env.reset(task=3)
    env.step(np.array([1, 2], np.float32))
    assert env.unwrapped.actions == [[1, 2]], "clipped to 1, then rescaled"  # type: ignore[attr-defined]


def test_actions_may_be_handed_on_as_they_are() -> None:
    env = VariBadWrapper(Counting(), 1, actions="varibad")
    env.reset(task=3)
    env.step(np.array([0.25, -1.5], np.float32))
    assert env.unwrapped.actions == [[0.25, -1.5]]  # type: ignore[attr-defined]


def test_an_environment_that_takes_tasks_by_option_is_reset_once() -> None:
    env = VariBadWrapper(Counting(), 2)
    _, info = env.reset(seed=4, options={"wind": 1}, task=2)
    assert info["options"] == {"wind": 1, "task": 2}
    assert env.unwrapped.episode == 0  # type: ignore[attr-defined]


def test_one_that_takes_them_by_a_method_is_seeded_before_it_is_given_one() -> None:
    env = VariBadWrapper(OldTasks(), 2)
    env.reset(task=7)
    env.reset(seed=3, task=None)
    asked = env.unwrapped.asked  # type: ignore[attr-defined]
    assert asked == [("task", 7), ("reset", None), ("reset", 3), ("task", None), ("reset", None)]


def test_one_without_tasks_can_be_repeated_but_given_none() -> None:
    env = VariBadWrapper(Taskless(), 2)
    env.reset(seed=3)
    with pytest.raises(
        shoal.ConfigurationError, match=r"has no tasks, and was to be reset with task 1.*reset_task\(task\)"
    ):
        env.reset(task=1)


def test_whether_it_is_at_its_goal_is_asked_before_the_next_episode_begins() -> None:
    env = make_env("GridNavi-v0", 2, n_tasks=21)
    env.reset(task=0)
    x, y = env.get_current_task().astype(int)
    way = [2] * x + [1] * y + [0] * (15 - x - y)
    at_goal = [env.step(action)[4]["is_goal_state"] for action in way]
    assert at_goal == [False] * (x + y - 1) + [True] * (16 - x - y)
    assert not env.is_goal_state(), "it has begun anew"
    assert "is_goal_state" not in VariBadWrapper(Counting(), 1).step(NOTHING)[4]


def test_what_the_environment_says_of_its_tasks_can_be_asked_of_the_wrapper() -> None:
    env = make_env("Wind-v0", 2, n_tasks=7)
    assert (env.n_tasks, list(env.get_all_task_idx()), env._max_episode_steps) == (7, list(range(7)), 75)
    env.set_goal((0.0, 0.01))
    env.reset_mdp()
    assert env.get_current_task().tolist() == [0.0, 0.01]
    env.reset_task(3)
    env.reset_mdp()
    assert env.get_current_task().tolist() == env.unwrapped.tasks[3].tolist()  # type: ignore[attr-defined]
    assert not hasattr(VariBadWrapper(Counting(), 1), "is_goal_state")
    with pytest.raises(AttributeError, match="'VariBadWrapper' object has no attribute 'n_task'"):
        _ = env.n_task


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"episodes_per_task": 0}, "episodes_per_task must be a whole number of at least 1, got 0"),
        ({"episodes_per_task": 2, "horizon": "varibat"}, "horizon must be .* Did you mean 'varibad'"),
        ({"episodes_per_task": 2, "actions": "raw"}, "actions must be one of 'rescaled', 'pomdp-baselines', 'varibad'"),
    ],
)
def test_options_that_do_not_exist_are_refused(keywords: Any, said: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=said):
        VariBadWrapper(Counting(), **keywords)


def test_what_cannot_be_made_longer_or_rescaled_or_told_is_refused_with_what_to_do() -> None:
    lake = gymnasium.make("FrozenLake-v1")
    with pytest.raises(shoal.ConfigurationError, match=r"one row of numbers.*Discrete\(16\).*add_done_info=False"):
        VariBadWrapper(lake, 2)
    assert VariBadWrapper(lake, 2, add_done_info=False).reset()[0] == 0
    with pytest.raises(shoal.ConfigurationError, match="oracle=True needs tasks"):
        VariBadWrapper(OldTasks(), 1, oracle=True, quiet=True)

    class Unbounded(Counting):
        action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    with pytest.raises(shoal.ConfigurationError, match="has no bounds.*actions='varibad'"):
        VariBadWrapper(Unbounded(), 1)
