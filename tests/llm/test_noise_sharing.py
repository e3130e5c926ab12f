"""Members of a group share their task, and as much noise as is wished."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import shoal
from shoal import ConfigurationError
from shoal.llm import GroupTasks, member_options


def test_common_noise_is_that_of_the_task_alone() -> None:
    assert member_options(7, 3) == [{"task_seed": 7, "noise_seed": 7}] * 3
    assert member_options(7, 2, noise_seed=9) == [{"task_seed": 7, "noise_seed": 9}] * 2


def test_independent_noise_is_another_for_each() -> None:
    options = [one for task in range(50) for one in member_options(task, 8, "independent")]
    assert [one["task_seed"] for one in options] == [task for task in range(50) for _ in range(8)]
    assert len({one["noise_seed"] for one in options}) == 400
    assert all(0 <= one["noise_seed"] < 2**63 for one in options)


def test_antithetic_noise_comes_in_pairs() -> None:
    options = member_options(4, 5, "antithetic")
    assert [one["mirrored"] for one in options] == [False, True, False, True, False]
    seeds = [one["noise_seed"] for one in options]
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3] != seeds[4]


def test_noise_depends_on_its_seed_and_nothing_else() -> None:
    assert member_options(4, 4, "independent") == member_options(4, 8, "independent")[:4]
    first, other = (member_options(task, 2, "independent", noise_seed=1) for task in (4, 5))
    assert [one["noise_seed"] for one in first] == [one["noise_seed"] for one in other]
    assert member_options(-3, 2, "independent") == member_options(-3, 2, "independent")


def test_tasks_go_through_all_seeds_in_turn() -> None:
    tasks = GroupTasks(3, 2, seed=10)
    assert [tasks(group, episode).seed for episode in range(2) for group in range(3)] == [10, 11, 12, 13, 14, 15]
    assert pickle.loads(pickle.dumps(tasks)) == tasks


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_groups": 0, "group_size": 2}, "num_groups must be a whole number of at least 1, got 0"),
        ({"num_groups": 2, "group_size": "2"}, "group_size must be a whole number of at least 1, got '2'"),
        ({"num_groups": 2, "group_size": 2, "seed": -1}, "seed must be a whole number of at least 0, got -1"),
        (
            {"num_groups": 2, "group_size": 2, "noise": "comon"},
            "noise must be one of 'common', 'independent', 'antithetic', got 'comon'. Did you mean 'common'?",
        ),
    ],
)
def test_tasks_that_cannot_be_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        GroupTasks(**arguments)


@pytest.mark.parametrize("noise", ["independent", "antithetic"])
def test_a_seed_of_the_caller_is_the_task_of_its_group(noise: str) -> None:
    tasks = GroupTasks(2, 2, noise=noise)
    with shoal.make("shoal/Countdown-v0", groups=2, group_size=2, tasks=tasks, backend="serial") as envs:
        dealt, info = envs.reset()
        assert info["task_id"].tolist() == [0, 0, 1, 1]
        asked, _ = envs.reset(seed=77)
    assert dealt[0] == dealt[1] != dealt[2] == dealt[3]
    assert asked[0] == asked[1] != asked[2] == asked[3]
    with shoal.make("shoal/Countdown-v0", groups=2, group_size=2, backend="serial") as envs:
        assert envs.reset(seed=77)[0] == asked
