"""Groups: the same task for all members, wherever they run, and the proof that they start alike."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import shoal
from shoal import ParallelEnv
from tests.envs import CountingEnv, WalkingEnv

Make = Callable[..., ParallelEnv]


class SeededEnv(CountingEnv):
    """Says what it was seeded with."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, _ = super().reset(seed=seed)
        return observation, {"seed": -1 if seed is None else seed, "task": (options or {}).get("task", -1)}


class ForgetfulEnv(WalkingEnv):
    """Starts by chance: it does not use its seed."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=int.from_bytes(os.urandom(4), "little"), options=options)


def test_make_takes_groups_and_their_size(make_any_way: Make) -> None:
    envs = shoal.make(SeededEnv, groups=4, group_size=3, backend="serial")
    assert (envs.num_envs, envs.num_groups, envs.group_size) == (12, 4, 3)
    assert envs.group(2) == range(6, 9)
    _, info = envs.reset(seed=40)
    assert info["seed"].tolist() == [40] * 3 + [41] * 3 + [42] * 3 + [43] * 3
    envs.close()


def test_members_start_alike_across_workers_and_go_their_own_ways(make_any_way: Make) -> None:
    envs = make_any_way([WalkingEnv] * 6, group_size=3)
    observation, _ = envs.reset(seed=1)
    assert (observation.reshape(2, 3, 3) == observation[::3, None]).all()
    assert observation[0, 0] != observation[3, 0]
    observation, *_ = envs.step([0, 1, 2, 0, 1, 2])
    assert len(set(observation[:3, 0])) == 3


def test_a_group_is_reset_by_its_id_with_one_task_for_all(make: Make) -> None:
    envs = make([SeededEnv] * 6, groups=3)
    envs.reset(seed=1)
    _, info = envs.reset(seed=[70, 80], options=[{"task": 7}, {"task": 8}], group_ids=[2, 0])
    assert info["seed"].tolist() == [80, 80, 0, 0, 70, 70]
    assert info["task"].tolist() == [8, 8, 0, 0, 7, 7]
    envs.send_reset(group_ids=[1], seed=[99])
    batch = envs.recv(min_envs=2)
    assert sorted(batch.env_ids) == [2, 3]
    assert batch.info["seed"].tolist() == [99, 99]


def test_without_a_seed_one_is_drawn_for_each_group_and_again_the_same_after_a_seed(make: Make) -> None:
    envs = make([SeededEnv] * 4, group_size=2)
    drawn = []
    for _ in range(2):
        envs.reset(seed=3)
        _, info = envs.reset()
        drawn.append(info["seed"].tolist())
    assert drawn[0] == drawn[1]
    assert drawn[0][0] == drawn[0][1] != drawn[0][2] == drawn[0][3]


def test_a_task_source_is_asked_for_groups(make: Make) -> None:
    envs = make(
        [SeededEnv] * 4, group_size=2, tasks=lambda group, episode: shoal.Task(seed=10 * group + episode, id=group)
    )
    _, info = envs.reset()
    assert info["seed"].tolist() == [0, 0, 10, 10]
    assert info["task_id"].tolist() == [0, 0, 1, 1]
    for _ in range(4):
        *_, info = envs.step([0] * 4)
    assert info["seed"].tolist() == [1, 1, 11, 11]


def test_members_that_do_not_start_alike_are_named(make_any_way: Make) -> None:
    envs = make_any_way([ForgetfulEnv] * 4, group_size=4)
    with pytest.raises(shoal.GroupMismatch) as caught:
        envs.reset(seed=1)
    message = str(caught.value)
    assert (
        "environments 0 and 1 of group 0 were given the same task, but do not start from the same observation"
        in message
    )
    assert "check_groups=False" in message
    envs.send_reset([0])
    envs.recv()
    envs.send_reset([1, 2])
    with pytest.raises(shoal.GroupMismatch, match="environments [12] and [12] of group 0"):
        envs.recv(min_envs=2)


def test_the_check_can_be_turned_off(make: Make) -> None:
    envs = make([ForgetfulEnv] * 4, group_size=2, check_groups=False)
    observation, _ = envs.reset(seed=1)
    assert observation[0, 0] != observation[1, 0]


def test_members_that_do_not_start_alike_can_be_counted_instead(make_any_way: Make) -> None:
    envs = make_any_way([ForgetfulEnv] * 4, group_size=2, check_groups="count")
    observation, _ = envs.reset(seed=1)
    assert observation[0, 0] != observation[1, 0]
    assert (envs.stats.group_comparisons, envs.stats.group_mismatches) == (2, 2)
    envs.reset(group_ids=[1])
    envs.send_reset([0, 1])
    envs.recv(min_envs=2)
    assert (envs.stats.group_comparisons, envs.stats.group_mismatches) == (4, 4)
    envs = make_any_way([WalkingEnv] * 6, group_size=3)
    envs.reset(seed=1)
    assert (envs.stats.group_comparisons, envs.stats.group_mismatches) == (4, 0)


def test_a_list_of_environments_counts_too() -> None:
    with shoal.EnvList([ForgetfulEnv] * 4, group_size=4, check_groups="count", backend="serial") as envs:
        envs.reset(seed=1)
        assert (envs.stats.group_comparisons, envs.stats.group_mismatches) == (3, 3)


def test_members_can_have_options_of_their_own(make: Make) -> None:
    members = tuple({"task": number} for number in (5, 6))
    for tasks in (
        [shoal.Task(seed=3, members=members, id="x")],
        lambda *_: shoal.Task(seed=3, members=members, id="x"),
    ):
        envs = make([SeededEnv] * 4, group_size=2, tasks=tasks)
        _, info = envs.reset()
        assert info["task"].tolist() == [5, 6, 5, 6]
        assert info["seed"].tolist() == [3] * 4
        assert info["task_id"].tolist() == ["x"] * 4
        for _ in range(4):
            *_, info = envs.step([0] * 4)
        assert info["task"].tolist() == [5, 6, 5, 6], "after an autoreset, too"


def test_options_of_members_are_added_to_those_of_the_task() -> None:
    task = shoal.Task(options={"task": 1, "other": 2}, members=({}, {"task": 9}))
    with ParallelEnv([SeededEnv] * 2, group_size=2, tasks=[task], backend="serial") as envs:
        _, info = envs.reset()
    assert info["task"].tolist() == [1, 9]
    assert task.options == {"task": 1, "other": 2}


def test_options_for_another_number_of_members_are_refused() -> None:
    tasks = [shoal.Task(members=({}, {}, {}))]
    with ParallelEnv([SeededEnv] * 4, group_size=2, tasks=tasks, backend="serial") as envs:
        with pytest.raises(
            shoal.ConfigurationError, match="a task has options for 3 members, but a group has 2: give one"
        ):
            envs.reset()


def test_autoreset_does_not_count_as_a_start_of_the_group(make: Make) -> None:
    envs = make([WalkingEnv] * 4, group_size=2, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=1)
    for number in range(20):
        envs.step([number % 3, 0, 1, 2])
    assert np.isfinite(envs.step([0] * 4)[0]).all()


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"groups": 2, "group_size": 2}, "groups=2 of group_size=2 are 4 environments, but there are 6"),
        ({"group_size": 4}, "groups=1 of group_size=4 are 4 environments, but there are 6"),
        ({"groups": 0}, "groups must be a whole number of at least 1, got 0"),
        ({"group_size": 2, "check_groups": "cuont"}, "check_groups must be True, False or 'count', got 'cuont'"),
        ({"group_size": 1.5}, "group_size must be a whole number of at least 1, got 1.5"),
    ],
)
def test_groups_that_do_not_come_out_even_are_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=message):
        ParallelEnv([SeededEnv] * 6, **keywords)


def test_a_group_that_does_not_exist_is_refused() -> None:
    with ParallelEnv([SeededEnv] * 4, group_size=2, backend="serial") as envs:
        envs.reset()
        with pytest.raises(shoal.ConfigurationError, match="group_ids: there is no 2; they are numbered from 0 to 1"):
            envs.reset(group_ids=[2])
        with pytest.raises(shoal.ConfigurationError, match="group_id: there is no 5"):
            envs.group(5)
