"""What happens to a trajectory when its world raises, hangs or kills its process; and to worlds that move."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import shoal.llm.worlds
from shoal.llm import EnvStateManager, MultiProcessEnvironmentContainer, Status
from shoal.vector.env_list import EnvList
from shoal.vector.errors import BackendUnavailable, CannotStart, PoisonStep, StateError
from tests.llm.worlds import config_of, inputs_of, registered


@pytest.fixture(autouse=True)
def _worlds() -> Iterator[None]:
    with registered():
        yield


def troubled(trouble: str, *, size: int = 2, mode: str = "train", **es_manager: Any) -> EnvStateManager:
    """Two groups, of which the second is in trouble, and the first only if that comes before all seeds."""
    custom = {"Counter": {"env_type": "counter", "env_config": {"trouble": trouble, "target": 50}}}
    return EnvStateManager(config_of("Counter", size=size, custom=custom, **es_manager), mode)


def statuses(caches: list[dict[str, Any]]) -> list[str]:
    return [str(cache["status"]) for cache in caches]


@pytest.mark.parametrize("parallel", [False, True], ids=["here", "workers"])
@pytest.mark.parametrize("what", ["raise", "exit"])
def test_a_reset_that_raises_is_one_members_affair(parallel: bool, what: str, caplog: pytest.LogCaptureFixture) -> None:
    with troubled(f"reset:{what}", use_multiprocessing=parallel) as manager:
        caches = manager.reset(seed=0)
        assert [cache["env_id"] for cache in caches] == [0, 1, 2, 3]
        assert statuses(caches) == ["ok", "ok", "env_error", "env_error"]
        assert caches[2]["history"] == [{"state": "", "actions_left": 10}]
        outputs = manager.step(inputs_of(caches, "Add"))  # the others go on
        assert [cache["env_id"] for cache in outputs] == [0, 1]
        results = manager.get_rollout_states()
        assert results[2]["metrics"] == {}
        assert results[0]["metrics"]["Counter/pass@2"] == 0.0
        assert manager.render()[:2] == ["train: 1 of 50"] * 2
        assert statuses(manager.reset(seed=2)) == ["ok", "ok", "env_error", "env_error"]
        assert statuses(manager.reset(seed=1)) == ["env_error", "env_error", "ok", "ok"]
    told = [one for one in caplog.records if one.name == "shoal.llm.es_manager"]
    assert len(told) == 1  # for all members and resets
    assert "Counter, group 1): env_error\nTraceback" in told[0].getMessage()
    assert "in _trouble" in told[0].getMessage()


@pytest.mark.parametrize("parallel", [False, True], ids=["here", "workers"])
def test_a_world_that_cannot_be_made_is_one_members_affair(parallel: bool, caplog: pytest.LogCaptureFixture) -> None:
    with troubled("make:raise", use_multiprocessing=parallel, groups=1) as manager:
        assert statuses(manager.reset(seed=0)) == ["env_error"] * 2
        assert manager.render() == [None, None]
    assert "no luck in make" in caplog.text


@pytest.mark.parametrize("parallel", [False, True], ids=["here", "workers"])
def test_a_step_that_raises_ends_one_trajectory_and_is_written_down(
    parallel: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with troubled("step:raise", use_multiprocessing=parallel) as manager:
        caches = manager.reset(seed=0)
        outputs = manager.step(inputs_of(caches, "Add", "Break", "Add"))
        assert [cache["env_id"] for cache in outputs] == [0, 1]
        failed = caches[2]
        assert failed["status"] == "env_error"
        assert "no luck in step" in failed["error"]
        first, last = failed["history"]
        assert (first["actions"], first["reward"], first["info"]) == ([1], 0.0, {})
        assert "no luck in step" in first["error"]
        assert last == {"state": "train: 1 of 50", "actions_left": 9}
        assert manager.get_rollout_states()[2]["metrics"] == {}
        assert statuses(manager.reset(seed=0)) == ["ok"] * 4
    assert caplog.text.count("Traceback") == 1


@pytest.mark.parametrize(("what", "status"), [("hang", "timeout"), ("die", "worker_died")])
@pytest.mark.parametrize("when", ["make", "reset", "step"])
def test_a_world_that_cannot_be_brought_back_has_a_status_and_the_others_go_on(
    when: str, what: str, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "shoal.vector")
    with troubled(f"{when}:{what}", size=1, step_timeout=1.0) as manager:
        caches = manager.reset(seed=0)
        expected = [status if when == "make" else "ok", "ok" if when == "step" else status]
        assert statuses(caches) == expected
        outputs = manager.step(inputs_of(caches, "Add", "Break"))
        assert [cache["env_id"] for cache in outputs] == ([] if when == "make" else [0])
        assert caches[1]["status"] == status
        if when == "step":
            assert caches[1]["history"][0]["actions"] == []
            assert caches[1]["history"][1]["state"] == "train: 1 of 50"
            assert "environment 1" in caches[1]["error"]
        assert manager.stats.restarts >= 2
        if when != "make":
            assert statuses(manager.reset(seed=0))[0] == "ok"
            assert statuses(manager.reset(seed=1))[1] == "ok"
        assert manager.get_rollout_states()[0]["env_id"] == 0


def test_a_fault_may_be_an_error_instead(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "shoal.vector")
    with troubled("step:die", size=1, on_fault="restore") as manager:
        caches = manager.reset(seed=0)
        with pytest.raises(PoisonStep, match="environment 1"):
            manager.step(inputs_of(caches, "Break"))
        assert statuses(manager.reset(seed=2)) == ["ok", "ok"]


def test_what_workers_cannot_send_is_one_members_affair() -> None:
    with EnvStateManager(config_of("Chatty", size=1, custom={"Chatty": {"env_type": "chatty"}})) as manager:
        caches = manager.reset(seed=0)
        outputs = manager.step([*inputs_of(caches[:1], "lock"), *inputs_of(caches[1:], "hello")])
        assert [cache["env_id"] for cache in outputs] == [1]
        assert statuses(caches) == ["env_error", "ok"]
        assert "lock" in caches[0]["error"]


def test_slow_worlds_are_not_late_because_they_are_many(caplog: pytest.LogCaptureFixture) -> None:
    custom = {"Counter": {"env_type": "counter", "env_config": {"seconds": 0.2, "target": 50}}}
    config = config_of("Counter", groups=4, size=3, custom=custom, step_timeout=1.0, max_workers=1)
    with EnvStateManager(config) as manager:
        outputs = manager.step(inputs_of(manager.reset(seed=0), "Add"))  # 2.4 s in one worker
        assert len(outputs) == 12
        os.kill(manager.worker_pids[0], signal.SIGKILL)
        assert len(manager.step(inputs_of(outputs, "Add"))) == 12  # brought back in 2.4 s
        assert (manager.stats.restarts, manager.stats.lost_episodes) == (1, 0)


# -- where worlds are ----------------------------------------------------------------------------------------------------


def counted(**es_manager: Any) -> EnvStateManager:
    custom = {"Counter": {"env_type": "counter", "env_config": {"tells_pid": True, "target": 50}}}
    return EnvStateManager(config_of("Counter", "Lake", groups=4, size=2, custom=custom, **es_manager))


def pids(caches: list[dict[str, Any]]) -> list[int]:
    return [cache["history"][-2]["info"].get("pid") for cache in caches if cache["tag"] == "Counter"]


def test_each_world_stays_in_its_worker_through_turns_and_resets() -> None:
    with counted() as manager:
        seen = set()
        for episode in range(2):
            caches = manager.reset(seed=episode)
            for turn in range(3):
                asked = caches if turn % 2 else caches[::-1]
                manager.step(inputs_of(asked, "Add" if turn else "add"))
                seen.add(tuple(pids(caches)))
        assert len(seen) == 1
        assert os.getpid() not in set(*seen)


def test_only_the_types_that_are_named_stay_here() -> None:
    with counted(sequential_env_types=["counter"]) as manager:
        caches = manager.step(inputs_of(manager.reset(seed=0), "Add"))
        assert pids(caches) == [os.getpid()] * 8
        assert len(manager.worker_pids) == 2
        assert manager.plan.local_envs == tuple(range(8))


def test_worlds_move_here_and_back_without_losing_where_they_are() -> None:
    with counted() as manager:
        caches = manager.step(inputs_of(manager.reset(seed=0), "Add", "Add"))
        workers = manager.worker_pids
        manager.use_multiprocessing = False
        caches = manager.step(inputs_of(caches, "Add"))
        assert pids(caches) == [os.getpid()] * 8
        assert caches[0]["history"][-1]["state"] == "train: 3 of 50"
        assert manager.worker_pids == ()
        with pytest.raises(ProcessLookupError):
            os.kill(workers[0], 0)
        caches = manager._step_parallel(inputs_of(caches, "Add"))
        assert os.getpid() not in pids(caches)
        assert caches[0]["history"][-1]["state"] == "train: 4 of 50"
        caches = manager._step_sequential(inputs_of(caches, "Add"))
        assert not manager.use_multiprocessing
        assert caches[2]["history"][-1]["state"] == "train: 6 of 50"


def test_workers_that_are_not_wanted_before_the_first_reset_are_never_started() -> None:
    before = threading.active_count()
    with EnvStateManager(config_of("Counter")) as manager:
        manager.use_multiprocessing = False
        manager.reset(seed=0)
        assert manager.plan.backend == "serial"
        assert threading.active_count() == before


@pytest.mark.parametrize("error", [CannotStart("no process is left"), BackendUnavailable("no shared memory")])
def test_without_workers_all_is_done_here_with_one_warning(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """The engine's own tests take processes away for real; here it is enough that it says so."""

    def start(env_fns: Any, *, backend: str, **keywords: Any) -> EnvList:
        if backend != "serial":
            raise error
        return EnvList(env_fns, backend=backend, **keywords)

    with EnvStateManager(config_of("Sokoban", "Lake")) as manager:
        caches = manager.step(inputs_of(manager.reset(seed=0), "Up", "left"))
        expected = repr(caches)
    monkeypatch.setattr(shoal.llm.worlds, "EnvList", start)
    with EnvStateManager(config_of("Sokoban", "Lake")) as manager:
        with pytest.warns(RuntimeWarning, match=f"run in this process, one after the other: {error}") as warned:
            caches = manager.reset(seed=0)
        assert len(warned) == 1
        assert repr(manager.step(inputs_of(caches, "Up", "left"))) == expected
        manager.reset(seed=1)
    with pytest.warns(RuntimeWarning, match="run in this process") as warned:
        envs = MultiProcessEnvironmentContainer("sokoban", 2, 2)
    with envs:
        envs.reset()
        assert len(warned) == 1
        assert envs.worker_pids == ()


# -- interruptions -------------------------------------------------------------------------------------------------------


def interrupt_soon() -> None:
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.3, signal.pthread_kill, [main, signal.SIGINT]).start()


def test_an_interrupted_turn_is_taken_once_when_it_is_given_again() -> None:
    custom = {"Counter": {"env_type": "counter", "env_config": {"seconds": 0.4, "target": 50}}}
    with EnvStateManager(config_of("Counter", custom=custom)) as manager:
        caches = manager.reset(seed=0)
        inputs = inputs_of(caches, "Add")
        interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            manager.step(inputs)
        assert all(len(cache["history"]) == 1 for cache in caches)
        with pytest.raises(StateError, match="interrupted in another turn: take that turn again"):
            manager.step(inputs_of(caches, "Take"))
        manager.use_multiprocessing = False
        with pytest.raises(StateError, match="cannot move in the middle of a turn"):
            manager.step(inputs)
        manager.use_multiprocessing = True
        caches = manager.step(inputs)
        assert caches[0]["history"][-1]["state"] == "train: 1 of 50"


def test_a_reset_gives_an_interrupted_turn_up() -> None:
    custom = {"Counter": {"env_type": "counter", "env_config": {"seconds": 0.4, "target": 50}}}
    with EnvStateManager(config_of("Counter", custom=custom)) as manager:
        inputs = inputs_of(manager.reset(seed=0), "Add")
        interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            manager.step(inputs)
        caches = manager.step(inputs_of(manager.reset(seed=2), "Add"))
        assert caches[0]["history"][-1]["state"] == "train: 1 of 50"


def test_a_status_says_whether_it_is_the_players_doing() -> None:
    assert [str(one) for one in Status] == [
        "ok", "truncated", "env_error", "timeout", "worker_died", "context_overflow", "policy_error",
        "parse_error",
    ]  # fmt: skip
    assert [one for one in Status if one.is_failure] == ["env_error", "timeout", "worker_died", "policy_error"]
