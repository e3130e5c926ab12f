"""Tasks: what an episode begins with, who says so, and that it survives an autoreset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import shoal
from shoal import ParallelEnv, Task
from tests.comparing import difference, rollout
from tests.envs import CountingEnv, WalkingEnv

Make = Callable[..., ParallelEnv]


class TaskEnv(CountingEnv):
    """Says with what its episode began. An episode has two steps."""

    def __init__(self) -> None:
        super().__init__(length=2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, _ = super().reset(seed=seed)
        return observation, {"seed": -1 if seed is None else seed, "task": (options or {}).get("task", -1)}


def by_index(index: int, episode: int) -> Task:
    return Task(seed=100 * index + episode, options={"task": 10 * index + episode}, id=f"{index}/{episode}")


def test_every_environment_is_given_its_own_options(make_any_way: Make) -> None:
    envs = make_any_way([TaskEnv] * 3)
    _, info = envs.reset(seed=[5, None, 7], options=[{"task": 3}, None, {"task": 1}])
    assert info["task"].tolist() == [3, -1, 1]
    assert info["seed"].tolist() == [5, -1, 7]


def test_a_subset_is_reset_with_its_own_tasks_and_the_others_stay(make: Make) -> None:
    envs = make([TaskEnv] * 4)
    envs.reset(seed=0)
    envs.step([0] * 4)
    observation, info = envs.reset(seed=[8, 9], options=[{"task": 1}, {"task": 2}], env_ids=[3, 1])
    assert observation[:, 0].tolist() == [1, 0, 1, 0]
    assert info["task"].tolist() == [0, 2, 0, 1]
    assert info["_task"].tolist() == [False, True, False, True]
    assert info["seed"].tolist() == [0, 9, 0, 8]
    _, info = envs.reset(seed=50, env_ids=np.array([False, True, False, False]))
    assert info["seed"].tolist() == [0, 51, 0, 0]


def episodes(envs: ParallelEnv, steps: int) -> list[Any]:
    """The tasks that environments report, from reset on."""
    _, info = envs.reset(seed=7)
    seen = [info]
    for _ in range(steps):
        *_, info = envs.step([0] * envs.num_envs)
        seen.append(info)
    return seen


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.value)
def test_a_source_says_with_what_autoreset_begins(make_any_way: Make, mode: AutoresetMode) -> None:
    envs = make_any_way([TaskEnv] * 3, tasks=by_index, autoreset_mode=mode)
    first, *later = episodes(envs, 6)
    assert first["task_id"].tolist() == ["0/0", "1/0", "2/0"]
    assert first["task"].tolist() == [0, 10, 20]
    assert first["seed"].tolist() == [7, 8, 9], "what the caller says comes first"
    resets = [info for info in later if "task_id" in info]
    assert [info["task_id"].tolist() for info in resets][:2] == [["0/1", "1/1", "2/1"], ["0/2", "1/2", "2/2"]]
    assert resets[0]["seed"].tolist() == [1, 101, 201]
    assert resets[1]["task"].tolist() == [2, 12, 22]


def test_options_of_the_caller_replace_the_task(make: Make) -> None:
    envs = make([TaskEnv] * 2, tasks=by_index)
    _, info = envs.reset(options=[{"task": 77}, None])
    assert info["task"].tolist() == [77, 10]
    assert info["_task_id"].tolist() == [False, True], "the first was not the source's task"


def test_a_list_of_tasks_is_dealt_out_in_turn(make: Make) -> None:
    envs = make([TaskEnv] * 2, tasks=[{"task": 5}, {"task": 6}, Task(options={"task": 7}, id="seven"), 12])
    _, info = envs.reset()
    assert info["task"].tolist() == [5, 6]
    assert info["task_id"].tolist() == [0, 1]
    envs.step([0, 0])
    envs.step([0, 0])
    *_, info = envs.step([0, 0])
    assert info["task_id"].tolist() == ["seven", 3]
    assert info["task"].tolist() == [7, -1]
    assert info["seed"].tolist() == [-1, 12]


def test_tasks_do_not_depend_on_who_runs_them() -> None:
    results = []
    for backend, workers in (("serial", 1), ("shm", 2), ("shm", 3), ("threads", 2)):
        with ParallelEnv([WalkingEnv] * 5, backend=backend, num_workers=workers, tasks=by_index) as envs:
            results.append(rollout(envs, 30))
    for other in results[1:]:
        assert not difference(results[0], other)


def raising(index: int, episode: int) -> Task:
    if index == 1:
        raise LookupError("no more tasks")
    return Task()


def test_a_source_that_raises_is_reported_for_its_environment(make: Make) -> None:
    envs = make([TaskEnv] * 2, tasks=raising)
    with pytest.raises(LookupError, match="no more tasks") as caught:
        envs.reset()
    assert isinstance(caught.value, shoal.EnvError)
    assert caught.value.env_index == 1


def test_a_source_that_returns_something_else_is_refused(make: Make) -> None:
    envs = make([TaskEnv] * 2, tasks=lambda index, episode: "easy")
    with pytest.raises(
        TypeError, match="a task must be a shoal.Task, a seed, a dictionary of options or None, got 'easy'"
    ):
        envs.reset()


@pytest.mark.parametrize("tasks", [[], "abc", 3])
def test_what_is_no_source_is_refused(tasks: Any) -> None:
    with pytest.raises(
        shoal.ConfigurationError, match="tasks must be a function of .* or a list of tasks that is not empty"
    ):
        ParallelEnv([TaskEnv], tasks=tasks)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"options": [{}]}, "1 options were given for 3 environments"),
        ({"options": [{}, {}, 3]}, r"options\[2\] must be a dictionary or None, got 3"),
        ({"options": "easy"}, "options must be a dictionary, a sequence of them, or None, got 'easy'"),
        ({"seed": [1], "env_ids": [0, 1]}, "1 seeds were given for 2 environments"),
        ({"env_ids": [0], "group_ids": [0]}, "env_ids and group_ids were both given"),
        (
            {"env_ids": [0], "options": {"reset_mask": np.array([True, False, False])}},
            "a reset_mask and env_ids were both given",
        ),
    ],
)
def test_a_reset_that_does_not_fit_is_refused(keywords: dict[str, Any], message: str) -> None:
    with ParallelEnv([TaskEnv] * 3, backend="serial") as envs:
        envs.reset()
        with pytest.raises(shoal.ConfigurationError, match=message):
            envs.reset(**keywords)
        assert envs.step([0] * 3)[0][:, 0].tolist() == [1, 1, 1]


def test_a_first_reset_of_some_is_refused_because_the_others_have_nothing_to_show() -> None:
    with ParallelEnv([TaskEnv] * 3, backend="serial") as envs:
        with pytest.raises(
            shoal.ResetNeeded, match=r"environments \[0, 2\] have never been reset, and this reset leaves"
        ):
            envs.reset(env_ids=[1])
