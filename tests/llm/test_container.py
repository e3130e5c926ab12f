"""Groups of worlds that take one action each."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.llm import MultiProcessEnvironmentContainer
from shoal.vector.errors import ConfigurationError, InvalidAction, ResetNeeded, StateError
from tests.llm.worlds import registered

EASY: dict[str, Any] = {"dim_room": (6, 6), "num_boxes": 1, "search_depth": 20}


@pytest.fixture(autouse=True)
def _worlds() -> Iterator[None]:
    with registered():
        yield


def here(env_type: str, env_num: int = 2, group_n: int = 2, seed: int = 0, **env_kwargs: Any) -> Any:
    return MultiProcessEnvironmentContainer(env_type, env_num, group_n, seed, env_kwargs, use_multiprocessing=False)


def test_members_of_a_group_begin_alike_and_groups_differ() -> None:
    with MultiProcessEnvironmentContainer("sokoban", 4, 3, seed=42, env_kwargs=EASY, num_workers=3) as envs:
        assert (envs.env_type, envs.env_num, envs.group_n, envs.num_processes) == ("sokoban", 4, 3, 12)
        assert len(envs.worker_pids) == 3
        states, infos = envs.reset()
        assert len(states) == len(infos) == 12
        groups = [set(states[3 * group : 3 * group + 3]) for group in range(4)]
        assert [len(group) for group in groups] == [1] * 4
        assert len(set.union(*groups)) == 4
        states, rewards, dones, infos = envs.step([1, 2, 3, 4] * 3)
        assert rewards == [-0.1] * 12
        assert dones == [False] * 12
        assert all(info["status"] == "ok" and info["action_is_valid"] for info in infos)
        assert envs.render() == states


def test_seeds_are_the_groups_and_new_ones_each_time() -> None:
    with here("sokoban", 2, 2, 5, **EASY) as envs:
        first, second = envs.reset()[0], envs.reset()[0]
        assert first != second
        assert envs.reset(5)[0] == envs.reset([5, 6])[0] == envs.reset([5, 5, 6, 6])[0] == first
        assert envs.reset(7)[0] == second
        with pytest.raises(
            ConfigurationError, match="seeds must be 4, one for each world, or 2, one for each group, got 3"
        ):
            envs.reset([1, 2, 3])


def test_an_action_that_is_none_leaves_its_world_as_it_is() -> None:
    with here("counter") as envs:
        states, _ = envs.reset()
        after, rewards, dones, infos = envs.step([1, None, 1, None])
        assert after[1] == states[1]
        assert after[0] != states[0]
        assert (rewards[1], dones[1], infos[1]["action_is_valid"]) == (0.0, False, False)
        assert "count" not in infos[1]  # the world was not asked for anything


def test_a_world_that_has_ended_is_left_alone_until_the_next_reset() -> None:
    with here("counter", group_n=1, target=2) as envs:
        envs.reset([0, 1])
        envs.step([1, 2])
        states, rewards, dones, infos = envs.step([1, 1])
        assert (dones, rewards) == ([True, False], [1.0, 0.0])
        again, rewards, dones, later = envs.step([1, 1])
        assert (again[0], rewards[0], later[0]) == (states[0], 0.0, infos[0])
        assert dones == [True, True]
        envs.reset()
        assert envs.dones == [False, False]


def test_actions_are_known_without_asking_worlds() -> None:
    with here("bandit", env_num=4, group_n=1, split="train") as envs:
        states, _ = envs.reset()
        actions = envs.get_available_actions()
        for state, names in zip(states, actions, strict=True):
            assert state == "Arms:\n" + "\n".join(f"{number}: {name}" for number, name in names.items())
    with here("countdown") as envs:
        envs.reset()
        assert envs.get_available_actions() == [None] * 4


def test_worlds_are_drawn_in_other_modes() -> None:
    with here("painter") as envs:
        envs.reset([10, 20])
        assert [picture[0, 0, 0] for picture in envs.render("rgb_array")] == [10, 10, 20, 20]
    with here("painter", pictures=2) as envs:
        states, _ = envs.reset(10)
        assert len(states[0]) == 2


def test_a_function_is_called_with_each_world() -> None:
    with MultiProcessEnvironmentContainer("counter", 2, 1, num_workers=2) as envs:
        envs.reset()
        pids = envs.call(lambda world: os.getpid())
        assert sorted(pids) == sorted(envs.worker_pids)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_start_as_is_asked_for(method: str) -> None:
    with MultiProcessEnvironmentContainer("countdown", 2, 1, start_method=method) as envs:
        assert len(envs.reset()[0]) == 2


def test_a_killed_worker_is_replaced_and_a_hanging_world_has_a_status(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "shoal.vector")
    kwargs = {"trouble": "step:hang", "target": 50}
    with MultiProcessEnvironmentContainer("counter", 2, 1, 0, kwargs, num_workers=2, step_timeout=1.0) as envs:
        envs.reset()
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        states, *_ = envs.step([1, 1])
        assert states == ["train: 1 of 50", "train: 2 of 50"]
        states, rewards, dones, infos = envs.step([1, 3])
        assert (states, dones) == (["train: 2 of 50", "train: 2 of 50"], [False, True])
        assert [info["status"] for info in infos] == envs.statuses == ["ok", "timeout"]
        assert "took longer than 1 s" in infos[1]["error"]
        assert envs.step([1, 1])[3][1]["status"] == "timeout"
        envs.reset(0)
        assert envs.statuses == ["ok", "ok"]


def test_a_container_that_nobody_holds_ends_its_workers() -> None:
    envs = MultiProcessEnvironmentContainer("countdown", 2, 1)
    pid = envs.worker_pids[0]
    del envs
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sokobann", 1, 1), "no world is registered as 'sokobann'. Did you mean 'sokoban'"),
        (("sokoban", 0, 1), "env_num must be a whole number of at least 1"),
        (("sokoban", 1, 0), "group_n must be a whole number of at least 1"),
        (("sokoban", 1, 1, -1), "seed must be a whole number of at least 0"),
        (("bandit", 1, 1, 0, {"max_steps": 3}), "env_kwargs: BanditConfig has no field 'max_steps'"),
    ],
)
def test_mistakes_are_named(arguments: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MultiProcessEnvironmentContainer(*arguments)


def test_calls_that_come_too_early_or_too_late_are_refused() -> None:
    envs = here("countdown")
    with pytest.raises(ResetNeeded, match=r"call reset\(\) before step"):
        envs.step([None] * 4)
    with pytest.raises(ResetNeeded, match=r"call reset\(\) before render"):
        envs.render()
    envs.reset()
    with pytest.raises(InvalidAction, match="3 actions were given for 4 worlds"):
        envs.step([None] * 3)
    envs.close()
    with pytest.raises(StateError, match="closed"):
        envs.reset()


def test_nothing_runs_beside_worlds_that_are_here() -> None:
    before = threading.active_count()
    with here("countdown") as envs:
        envs.reset()
        assert threading.active_count() == before
