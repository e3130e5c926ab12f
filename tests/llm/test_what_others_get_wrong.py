"""Mistakes that are known from other implementations of the same interfaces, each with a test that they are not made here."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.llm import (
    EnvironmentManagerBase,
    EnvStateManager,
    MultiProcessEnvironmentContainer,
    create_projection_function,
    make_environments,
)
from shoal.llm.hosted import HostedWorld
from tests.llm.worlds import config_of, inputs_of, registered


@pytest.fixture(autouse=True)
def _worlds() -> Iterator[None]:
    with registered():
        yield


def counters(target: int = 50, *, groups: int = 4, size: int = 1, **keywords: Any) -> EnvStateManager:
    settings = {"target": target, "tells_pid": True}
    return EnvStateManager(
        config_of(
            "Counter",
            groups=groups,
            size=size,
            custom={"Counter": {"env_type": "counter", "env_config": settings}},
            **keywords,
        )
    )


def test_a_later_turn_is_taken_where_the_earlier_ones_were() -> None:
    with counters(groups=8, max_workers=3) as manager:
        caches = manager.reset(seed=0)
        for count in range(1, 6):
            asked = caches[count % 2 :: 2] if count % 3 else caches[::-1]
            manager.step(inputs_of(asked, "Add"))
        for cache in caches:
            turns = [entry for entry in cache["history"] if "actions" in entry]
            begin = cache["env_id"] % 2
            assert [entry["info"]["count"] for entry in turns] == [begin + 1 + turn for turn in range(len(turns))]
            assert len({entry["info"]["pid"] for entry in turns}) == 1


def test_workers_outlive_resets() -> None:
    with counters() as manager:
        manager.reset(seed=0)
        before = manager.worker_pids
        for seed in range(5):
            manager.reset(seed=seed)
        assert manager.worker_pids == before


def test_going_on_sequentially_goes_on_from_where_worlds_are() -> None:
    with counters() as manager:
        caches = manager.step(inputs_of(manager.reset(seed=0), *["Add"] * 7))
        manager.use_multiprocessing = False
        caches = manager.step(inputs_of(caches, "Add"))
        assert caches[0]["history"][-1]["state"] == "train: 8 of 50"


@pytest.mark.parametrize("penalty", [0.1, -0.1])
def test_a_penalty_is_counted_whichever_its_sign(penalty: float) -> None:
    with counters(format_penalty=penalty) as manager:
        caches = manager.step(inputs_of(manager.reset(seed=0), "Add", "Jump"))
        assert [cache["penalty"] for cache in caches] == [-0.1] * 4


def test_a_world_that_fails_in_a_worker_does_not_vanish(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    custom = {"Counter": {"env_type": "counter", "env_config": {"trouble": "step:die", "target": 50}}}
    with EnvStateManager(config_of("Counter", size=1, custom=custom)) as manager:
        caches = manager.reset(seed=0)
        outputs = manager.step(inputs_of(caches, "Break"))
        assert [cache["env_id"] for cache in outputs] == [0]
        assert [str(cache["status"]) for cache in manager.get_rollout_states()] == ["ok", "worker_died"]
        assert [len(cache["history"]) for cache in caches] == [2, 2]


def test_one_sequential_type_does_not_make_the_batch_sequential() -> None:
    with EnvStateManager(config_of("Counter", "Sokoban", sequential_env_types=["sokoban"])) as manager:
        manager.reset(seed=0)
        assert manager.plan.local_envs == (4, 5, 6, 7)
        assert len(manager.worker_pids) == 2


def test_members_have_the_same_level_in_whichever_process_they_are() -> None:
    """Also where levels are hard to make, so that some are made several times; and whatever the salt of hashes is."""
    custom = {"Sokoban": {"env_type": "sokoban", "env_config": {"num_boxes": 4, "search_depth": 5}}}
    config = config_of("Sokoban", groups=6, size=4, custom=custom, max_workers=4)
    with EnvStateManager(config) as manager:
        states = [cache["history"][0]["state"] for cache in manager.reset(seed=0)]
    for group in range(6):
        assert len(set(states[4 * group : 4 * group + 4])) == 1


def test_arms_are_in_the_same_order_here_and_in_workers() -> None:
    custom = {"Bandit": {"env_type": "bandit", "env_config": {"split": "train"}}}
    config = config_of("Bandit", groups=16, size=2, custom=custom)
    with EnvStateManager(config) as manager:
        caches = manager.reset(seed=0)
        names = [cache["history"][0]["state"].splitlines()[1].partition(": ")[2] for cache in caches]
        inputs = [inputs_of([cache], name)[0] for cache, name in zip(caches, names, strict=True)]
        manager.step(inputs)
        assert all(cache["history"][0]["actions"] == [1] for cache in caches)
        assert all(cache["history"][1]["state"].startswith(name) for cache, name in zip(caches, names, strict=True))


def test_trajectories_are_not_sent_to_workers() -> None:
    with counters() as manager:
        caches = manager.reset(seed=0)
        for cache in caches:
            cache["history"][0]["note"] = lambda: None  # could not be sent
            cache["notes"] = "x" * 10**7
        began = time.process_time()
        manager.step(inputs_of(caches, "Add"))
        assert time.process_time() - began < 1.0


def test_a_container_waits_for_no_world_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    kwargs = {"trouble": "step:hang", "target": 50}
    with MultiProcessEnvironmentContainer("counter", 2, 1, 0, kwargs, step_timeout=0.5) as envs:
        envs.reset()
        assert envs.step([1, 3])[2] == [False, True]
        assert envs.statuses == ["ok", "timeout"]


def test_no_action_means_that_the_world_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    with MultiProcessEnvironmentContainer("counter", 2, 1, use_multiprocessing=False) as envs:
        envs.reset()
        monkeypatch.setattr(HostedWorld, "step", lambda *_: pytest.fail("it was asked for something"))
        monkeypatch.setattr(HostedWorld, "render", lambda *_: pytest.fail("it was rendered"))
        envs.step([None, None])


def test_a_turn_renders_only_those_who_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[int] = []
    shown = HostedWorld._shown

    def note(self: HostedWorld, seen: Any) -> Any:
        rendered.append(id(self))
        return shown(self, seen)

    monkeypatch.setattr(HostedWorld, "_shown", note)
    with counters(groups=20, use_multiprocessing=False) as manager:
        caches = manager.reset(seed=0)
        rendered.clear()
        manager.step(inputs_of(caches[:5], "Add"))
        assert len(rendered) == len(set(rendered)) == 5


def test_worlds_are_not_asked_for_their_actions_to_make_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = MultiProcessEnvironmentContainer("counter", 2, 1, use_multiprocessing=False)
    with EnvironmentManagerBase(envs, create_projection_function("counter"), "counter") as manager:
        anchors = manager.reset()[0]["anchor"]
        for name in ("step", "render", "ask"):
            monkeypatch.setattr(HostedWorld, name, lambda *_: pytest.fail("it was asked"))
        assert "Available Actions: Add, Take, Break" in manager.build_text_obs(anchors)[0]


def test_all_tags_are_used() -> None:
    train, val = make_environments(config_of("Sokoban", "Countdown", groups=1, size=1, use_multiprocessing=False))
    with train, val:
        assert ["Target" in text for text in train.reset()[0]["text"]] == [False, True]


def test_worlds_are_given_their_own_settings_alone() -> None:
    config = config_of("Bandit", "Countdown", groups=1, size=1, use_multiprocessing=False)
    config["max_steps"] = config["es_manager"]["max_steps"] = 7
    train, val = make_environments(config)
    with train, val:
        assert not any(hasattr(one, "max_steps") for one in train.envs.configs)


def test_a_dead_worker_is_not_the_end_of_the_batch() -> None:
    with MultiProcessEnvironmentContainer("counter", 4, 1, num_workers=2) as envs:
        envs.reset()
        os.kill(envs.worker_pids[1], signal.SIGKILL)
        states, *_ = envs.step([1] * 4)
        assert states == ["train: 1 of 3", "train: 2 of 3"] * 2
        assert envs.statuses == ["ok"] * 4


def test_managers_count_a_penalty_too() -> None:
    train, val = make_environments(config_of("Countdown", use_multiprocessing=False, format_penalty=0.3))
    with train, val:
        train.reset()
        assert train.step(["nothing"] * 4)[1].tolist() == [-0.3] * 4
