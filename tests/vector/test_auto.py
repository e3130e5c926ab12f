"""``backend="auto"``: the first steps decide, and no result depends on the decision."""

from __future__ import annotations

import errno
import functools
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import assume, given
from hypothesis import strategies as st

import shoal
from shoal.vector import comparison, deciding, forked, step_clock, trial, wording
from shoal.vector.backends import make_backend
from shoal.vector.backends.serial import SerialBackend
from shoal.vector.comparison import Comparison
from shoal.vector.flights import Flights
from shoal.vector.forecast import Measured, forecasts, slowness
from shoal.vector.partition import by_cost, longest_share, partition
from shoal.vector.supervisor import Supervisor
from shoal.vector.trial import Verdict
from tests.comparing import difference, rollout
from tests.envs import TextEnv, WalkingEnv

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor leaves no choice")


NOW = [0.0, 0.0, 0.0, 0.0]
"""What the clocks show: wall, processors, thread, queueing. Only environments let time pass, not the machine."""


@pytest.fixture(autouse=True)
def _made_up_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_begin", "_end"):
        monkeypatch.setattr(step_clock, name, lambda: step_clock.Moment(*NOW))
    monkeypatch.setattr(step_clock, "_wall", lambda: NOW[0])
    monkeypatch.setattr(trial, "others_running", lambda: 0)


class CostlyEnv(WalkingEnv):
    """Computes, or waits, for so many seconds in each step."""

    made = 0

    def __init__(self, computing: float = 1e-6, waiting: float = 0.0, making: float = 0.0) -> None:
        super().__init__()
        CostlyEnv.made += 1
        self.computing, self.waiting = computing, waiting
        time.sleep(making)

    def step(self, action: Any) -> Any:
        NOW[0] += self.computing + self.waiting
        NOW[1] += self.computing
        NOW[2] += self.computing
        return super().step(action)


def play_until_decided(envs: shoal.ParallelEnv, most: int = 400) -> list[Any]:
    random = np.random.default_rng(0)
    results: list[Any] = [envs.reset(seed=3)]
    for _ in range(most):
        if envs._trial is None:
            break
        results.append(envs.step(random.integers(3, size=envs.num_envs)))
    results.extend(envs.step(random.integers(3, size=envs.num_envs)) for _ in range(20))
    return results


def same_played(keywords: dict[str, Any], num_envs: int, steps: int, **more: Any) -> list[Any]:
    random = np.random.default_rng(0)
    with shoal.make(CostlyEnv, num_envs, backend="serial", **keywords, **more) as envs:
        return [envs.reset(seed=3), *(envs.step(random.integers(3, size=num_envs)) for _ in range(steps))]


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_what_costs_much_moves_to_workers_and_goes_on_the_same(mode: AutoresetMode) -> None:
    keywords: dict[str, Any] = {"computing": 2e-3}
    with shoal.make(CostlyEnv, 6, autoreset_mode=mode, **keywords) as envs:
        assert (envs.plan.backend, envs.worker_pids) == ("serial", ())
        assert envs.plan.reason == "the first steps are timed in this process, then it is decided"
        found = play_until_decided(envs)
        assert (envs.plan.backend, len(envs.worker_pids), envs.on_fault) == ("shm", 2, "restore")
        assert "A step of one environment takes" in envs.plan.reason
        assert "2 worker processes should take about" in envs.plan.reason
    assert not difference(found, same_played(keywords, 6, len(found) - 1, autoreset_mode=mode))


def test_what_costs_little_stays_and_no_worker_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def watched(name: str, *arguments: Any, **keywords: Any) -> Any:
        started.append(name)
        return make_backend(name, *arguments, **keywords)

    monkeypatch.setattr("shoal.vector.pool.make_backend", watched)
    with shoal.make(CostlyEnv, 4) as envs:
        found = play_until_decided(envs)
        assert (envs.plan.backend, envs.on_fault) == ("serial", "raise")
        assert envs.plan.reason.startswith("A step of one environment takes ")
        assert envs.plan.reason.endswith("which is not worth it.")
        assert isinstance(envs._pool.backend, SerialBackend), "nothing is written down any more"
    assert started == ["serial"]
    assert not difference(found, same_played({}, 4, len(found) - 1))


CLOSE: dict[str, Any] = {"computing": 30e-6}
"""With eight of these, a step of all takes 240 µs at home, and workers should be a little quicker."""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A window has five steps, and the machine is an ordinary one, on which nothing takes too long."""
    monkeypatch.setattr(trial, "slowness", lambda: 1.0)
    monkeypatch.setattr(comparison, "SETTLING_SECONDS", 0.0)
    monkeypatch.setattr(comparison, "WINDOW_SECONDS", 0.0)
    monkeypatch.setattr(comparison, "FEW_STEPS", 5)
    monkeypatch.setattr(deciding, "LONGEST_SECONDS", 1e9)
    return monkeypatch


def let_steps_take(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """Whatever steps in workers take, it is taken for this: one value for each time that environments are there."""
    left, kept = list(seconds), list[Comparison]()
    note = Comparison.note

    def made_up(self: Comparison, _: float) -> bool:
        if self not in kept:
            kept.append(self)
        return note(self, left[min(len(kept), len(left)) - 1])

    monkeypatch.setattr(Comparison, "note", made_up)
    monkeypatch.setattr(comparison, "slowness", lambda: 1.0)


def until_compared(envs: shoal.ParallelEnv) -> int:
    """Step until workers are found to be slower; returns how many steps that took."""
    envs.reset(seed=3)
    steps = 0
    while envs._comparison is None or not envs._comparison.is_slower:
        envs.step([0] * envs.num_envs)
        steps += 1
    return steps


def play(envs: shoal.ParallelEnv, steps: int = 300) -> list[Any]:
    random = np.random.default_rng(0)
    return [envs.reset(seed=3), *(envs.step(random.integers(3, size=envs.num_envs)) for _ in range(steps))]


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
@pytest.mark.parametrize("seconds", [1e-4, 4e-3], ids=["quicker", "slower"])
def test_workers_that_are_slower_than_a_loop_are_left_again(
    seconds: float, mode: AutoresetMode, quick: pytest.MonkeyPatch
) -> None:
    let_steps_take(quick, seconds)
    with shoal.make(CostlyEnv, 8, autoreset_mode=mode, **CLOSE) as envs:
        found = play(envs)
        assert re.match("A step of one environment takes .* µs, so a loop over all 8 takes .* µs. ", envs.plan.reason)
        if seconds == 1e-4:
            assert (envs.plan.backend, len(envs.worker_pids), envs.on_fault) == ("shm", 2, "restore")
            assert re.search("should take about 1.. µs, .* It takes 100 µs.$", envs.plan.reason)
        else:
            assert (envs.plan.backend, envs.worker_pids, envs.on_fault) == ("serial", (), "raise")
            assert re.search(
                " a step of all took 4 ms, where 1.. µs were foreseen, which is not worth", envs.plan.reason
            )
            assert isinstance(envs._pool.backend, SerialBackend), "nothing is written down any more"
            assert psutil.Process().children() == []
            assert "memfd:shoal" not in Path("/proc/self/maps").read_text(), "no memory of theirs is left"
    assert not difference(found, same_played(CLOSE, 8, len(found) - 1, autoreset_mode=mode))


def test_what_is_clearly_worth_it_is_compared_too(quick: pytest.MonkeyPatch) -> None:
    let_steps_take(quick, 30e-3)
    with shoal.make(CostlyEnv, 8, computing=2e-3) as envs:
        found = play(envs, 100)
        assert envs.plan.backend == "serial"
        assert re.search("2 worker processes a step of all took 30 ms, where [78].* ms were", envs.plan.reason)
    assert not difference(found, same_played({"computing": 2e-3}, 8, len(found) - 1))


def test_environments_that_came_back_for_nothing_go_again_and_are_slower_to_come_back(
    quick: pytest.MonkeyPatch,
) -> None:
    let_steps_take(quick, 300e-6, 100e-6)
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        until_compared(envs)
        for env in envs.call("set_wrapper_attr", "computing", 60e-6):  # meanwhile steps have become dearer everywhere
            assert env is not False
        for _ in range(100):
            envs.step([0] * 8)
        assert envs.plan.backend == "shm"
        assert "took 300 µs, where 1" in envs.plan.reason
        assert envs._comparison is not None
        assert envs._comparison.num_windows == 4 * comparison.NUM_WINDOWS


@pytest.mark.parametrize("how", ["step", "step_async"])
def test_a_few_thousand_steps_of_many_environments_come_back(how: str, quick: pytest.MonkeyPatch) -> None:
    quick.setattr(deciding, "LONGEST_SECONDS", comparison.LONGEST_SECONDS)
    quick.setattr(comparison, "FEW_STEPS", 200)
    let_steps_take(quick, 9e-3)
    with shoal.make(CostlyEnv, 64, computing=10e-6) as envs:
        envs.reset(seed=3)
        for _ in range(400):
            if how == "step":
                envs.step([0] * 64)
            else:
                envs.step_async([0] * 64)
                envs.step_wait()
        assert envs.plan.backend == "serial"


def test_what_cannot_come_back_stays_in_workers(quick: pytest.MonkeyPatch) -> None:
    let_steps_take(quick, 4e-3)
    with shoal.make(functools.partial(OnceHereEnv, 30e-6, os.getpid()), 8) as envs:
        OnceHereEnv.left = 8
        found = play(envs)
        assert envs.plan.backend == "shm"
        assert "It takes 4 ms, but they cannot come back: " in envs.plan.reason
        assert "no second window" in envs.plan.reason
        assert envs.step([1] * 8)[0].shape == (8, 3)
    assert not difference(found, same_played(CLOSE, 8, len(found) - 1))


@pytest.mark.parametrize("why", ["a worker has died", "it would take too long", "halves", "captured states"])
def test_some_stay_in_workers_in_any_case(why: str, quick: pytest.MonkeyPatch) -> None:
    let_steps_take(quick, 4e-3)
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        until_compared(envs)
        if why == "a worker has died":
            os.kill(envs.worker_pids[0], signal.SIGKILL)
            envs.get_attr("computing")
            assert envs.stats.restarts == 1
        elif why == "it would take too long":
            quick.setattr(deciding, "LONGEST_SECONDS", 0.0)
        elif why == "halves":
            for part in envs.split(2):
                part.step([0] * 4)
        else:
            journal = envs._pool.backend.journal  # type: ignore[attr-defined]
            assert journal.seconds_to_repeat() < float("inf")
            journal.bases[0] = journal.last_sequence, b""
            assert journal.seconds_to_repeat() == float("inf")
        for _ in range(3):
            envs.step([0] * 8)
        assert envs.plan.backend == "shm"
        assert "should take about" in envs.plan.reason


def test_nobody_comes_back_while_they_are_profiled(quick: pytest.MonkeyPatch) -> None:
    let_steps_take(quick, 4e-3)
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        until_compared(envs)
        with envs.profile() as profile:
            for _ in range(20):
                envs.step([0] * 8)
        assert profile.plan.backend == "shm"
        envs.step([0] * 8)
        assert envs.plan.backend == "serial"


class LeisurelyEnv(CostlyEnv):
    """Takes its time to end."""

    def close(self) -> None:
        time.sleep(0.05)


def test_coming_back_that_is_interrupted_leaves_everything_as_it_was(quick: pytest.MonkeyPatch) -> None:
    let_steps_take(quick, 4e-3)
    with shoal.make(LeisurelyEnv, 8, **CLOSE) as envs, shoal.make(CostlyEnv, 8, backend="serial") as plain:
        plain.reset(seed=3)
        for _ in range(until_compared(envs)):
            plain.step([0] * 8)
        with quick.context() as patched:
            patched.setattr(Supervisor, "follow", interrupt)
            with pytest.raises(KeyboardInterrupt):
                envs.step([2] * 8)
        assert (envs.plan.backend, envs._pending, envs.closed) == ("shm", None, False)
        with quick.context() as patched:
            patched.setattr(Flights, "take_over", press_ctrl_c)
            with pytest.raises(KeyboardInterrupt):
                envs.step([2] * 8)
        assert (envs.plan.backend, envs._pending, envs.closed) == ("serial", None, False)
        for _ in range(100):
            assert not difference(envs.step([2] * 8), plain.step([2] * 8))
        assert envs.on_fault == "raise", "it has been decided, and nothing is written down any more"


def press_ctrl_c(*_: Any) -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_forked_copy_of_the_program_does_not_come_back(quick: pytest.MonkeyPatch) -> None:
    let_steps_take(quick, 4e-3)
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        until_compared(envs)
        with quick.context() as patched:
            patched.setattr(forked.HERE, "pid", 4711)
            with pytest.raises(shoal.ShoalError, match="cannot be used in a process forked from it"):
                envs.step([0] * 8)
        assert envs.plan.backend == "shm"


def test_who_saves_while_workers_are_compared_can_do_so_later_too(quick: pytest.MonkeyPatch) -> None:
    let_steps_take(quick, 4e-3)
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        until_compared(envs)
        saved = envs.state_dict()
        for _ in range(100):
            envs.step([0] * 8)
        assert (envs.plan.backend, envs.on_fault) == ("serial", "restore")
        envs.load_state_dict(saved)


@pytest.mark.parametrize(
    ("there", "now", "is_slower"), [(0.9, 1, False), (1.1, 1, True), (1.9, 2, False), (0.9, 0.5, True)]
)
def test_a_machine_that_has_become_slower_is_no_reason_to_come_back(
    there: float, now: float, is_slower: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "slowness", lambda: 1.3 * now)
    compared, num_windows = Comparison(0.01, 1.3), 0
    for step in range(500):
        num_windows += compared.note(0.01 * there if step % 10 else 0.1)  # those that were disturbed do not count
    assert num_windows > 5
    assert compared.is_slower == is_slower


def test_a_single_window_counts_only_if_it_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "slowness", lambda: 1.0)
    for ratio, windows_needed in ((1.2, comparison.NUM_WINDOWS), (4.0, 1)):
        compared, num_windows = Comparison(0.01, 1.0), 0
        while not compared.is_slower:
            num_windows += compared.note(0.01 * ratio)
        assert num_windows == windows_needed


@pytest.mark.parametrize(
    ("others", "num_envs", "microseconds", "backend"),
    [(0, 64, 5, "shm"), (1, 64, 5, "serial"), (1, 20, 300, "serial"), (4, 20, 300, "shm"), (4, 4, 1, "serial")],
)
def test_other_busy_processes_are_part_of_the_forecast(
    others: int, num_envs: int, microseconds: float, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    data = measured(num_envs, microseconds, others=float(others))
    verdict = Verdict(data, forecasts(data, 2))
    assert verdict.choice.backend == backend
    assert ("computing." in verdict.reason) == bool(others)
    assert ("Beside them the loop should take about" in verdict.reason) == (others > 1)


def test_neighbours_on_a_large_machine_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    data = measured(64, 5, others=40.0)
    assert Verdict(data, forecasts(data, 2)).choice.backend == "shm"


def test_what_waits_gets_a_thread_each() -> None:
    keywords: dict[str, Any] = {"waiting": 5e-3}
    with shoal.make(CostlyEnv, 6, **keywords) as envs:
        found = play_until_decided(envs)
        plan = envs.plan
        assert (plan.backend, plan.num_workers, plan.threads_per_worker) == ("shm", 2, 3)
        assert "% of it waiting" in plan.reason
        assert "2 worker processes with 3 threads each" in plan.reason
    assert not difference(found, same_played(keywords, 6, len(found) - 1))


def test_what_is_slow_to_make_is_made_by_workers_at_once() -> None:
    CostlyEnv.made = 0
    with shoal.make(CostlyEnv, 3, making=0.1) as envs:
        assert (envs.plan.backend, CostlyEnv.made) == ("shm", 2)
        assert envs.plan.reason.startswith("Making one environment takes 0.1")


def test_what_is_slow_to_reset_moves_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SLOW_TO_BEGIN", 0.0)
    with shoal.make(WalkingEnv, 3) as envs:
        assert envs.plan.backend == "serial"
        observation, _ = envs.reset(seed=3)
        again = envs.step([0, 1, 2])
        assert envs.plan.backend == "shm"
        assert envs.plan.reason == "Nothing was timed before workers were needed."
    with shoal.make(WalkingEnv, 3, backend="serial") as plain:
        assert not difference(observation, plain.reset(seed=3)[0])
        assert not difference(again, plain.step([0, 1, 2]))


def test_a_first_environment_is_made_only_once() -> None:
    CostlyEnv.made = 0
    with shoal.make(CostlyEnv, 3) as envs:
        envs.reset()
        assert CostlyEnv.made == 3


@pytest.mark.parametrize("how", ["step_async", "all at once", "halves", "parts"])
def test_who_wants_something_meanwhile_is_timed_too_and_gets_workers(how: str) -> None:
    with shoal.make(CostlyEnv, 4, computing=2e-3) as envs, shoal.make(CostlyEnv, 4, backend="serial") as plain:
        for each in (envs, plain):
            each.reset(seed=3)
            each.set_attr("start", 5.0)
        if how == "halves":
            envs.send([1] * 4)
        parts = envs.split(2)
        for _ in range(20):
            expected = plain.step([1] * 4)
            found: list[Any] = []
            if how == "step_async":
                envs.step_async([1] * 4)
                found.append((range(4), *envs.step_wait()))
            elif how == "all at once":
                envs.send([1] * 4)
                found.append(envs.recv(min_envs=4))
            elif how == "halves":
                for _ in range(2):
                    batch = envs.recv(env_ids=[0, 1] if not found else [2, 3])
                    found.append(batch)
                    envs.send([1, 1], batch.env_ids)
            else:
                found.extend((part.env_ids, *part.step([1, 1])) for part in parts)
            for env_ids, *results in found:
                its = [values[list(env_ids)] for values in expected[:4]]
                assert not difference(results[:4], its)
        assert (envs.plan.backend, envs._trial) == ("shm", None)
        assert "A step of one environment takes" in envs.plan.reason


@pytest.mark.parametrize(
    "keywords",
    [
        {"num_workers": 2}, {"start_method": "fork"}, {"on_fault": "truncate"}, {"step_timeout": 9.0},
        {"timeouts": {"reset": 9.0}}, {"max_worker_episodes": 99}, {"max_worker_memory": "2 GB"}, {"in_process": [0]},
        {"isolate_rng": True},
    ],
    ids=str,
)  # fmt: skip
def test_who_asks_for_what_only_workers_have_gets_them_at_once(keywords: dict[str, Any]) -> None:
    with shoal.make(WalkingEnv, 3, **keywords) as envs:
        assert envs.plan.backend == "shm"
        assert envs._trial is None


def test_text_moves_too() -> None:
    with shoal.make(TextEnv, 3) as envs, shoal.make(TextEnv, 3, backend="serial") as plain:
        expected = rollout(plain, 20)
        envs.action_space.seed(7)
        found: list[Any] = [envs.reset(seed=7)]
        for number in range(20):
            if number == 5:
                envs._move(envs._asked.__class__(backend="shm"), "for a test")
            found.append(envs.step(envs.action_space.sample()))
        assert envs.plan.backend == "shm"
    assert not difference(found, expected)


class FickleEnv(CostlyEnv):
    """Never the same twice."""

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, float(time.perf_counter_ns()), *rest


def test_what_cannot_be_repeated_stays_with_a_warning() -> None:
    with shoal.make(FickleEnv, 4, computing=2e-3) as envs:
        with pytest.warns(RuntimeWarning, match="all environments run in this process, .*gave another result than"):
            play_until_decided(envs)
        assert (envs.plan.backend, envs.worker_pids) == ("serial", ())
        assert "But they cannot run elsewhere" in envs.plan.reason
        assert envs.step([1, 1, 1, 1])[0].shape == (4, 3)


def test_where_no_process_can_be_started_it_stays_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.warns(
        RuntimeWarning, match="all environments run in this process, .*refuses another process"
    ) as warned:
        envs = shoal.make(WalkingEnv, 4)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    with envs:
        assert envs.plan.backend == "serial"
        assert "no worker process could be started" in envs.plan.reason
        envs.reset()


def test_a_world_stays() -> None:
    with shoal.make("shoal/FrozenLake-v0", 4) as envs:
        assert (envs.plan.backend, envs.plan.reason) == (
            "serial",
            "A batched world steps all its environments in one call.",
        )


def test_close_and_errors_work_while_it_is_open() -> None:
    envs = shoal.make(WalkingEnv, 3)
    with pytest.raises(shoal.ResetNeeded):
        envs.step([0, 0, 0])
    envs.reset()
    with pytest.raises(shoal.InvalidAction):
        envs.step([0, 0])
    envs.close()
    with pytest.raises(shoal.Closed):
        envs.step([0, 0, 0])
    with pytest.raises(shoal.Closed):
        envs.step_async([0, 0, 0])


def measured(num_envs: int, microseconds: float, **keywords: Any) -> Measured:
    seconds = num_envs * microseconds * 1e-6
    return Measured(
        **{"num_envs": num_envs, "seconds": seconds, "computing_seconds": seconds, "waiting_seconds": 0.0}
        | {"result_nbytes": 100 * num_envs, "infos": 0.0}
        | keywords
    )


@pytest.mark.parametrize(
    ("num_envs", "microseconds", "cpus", "backend", "workers"),
    [
        (2, 1, 2, "serial", 1),
        (100, 0.5, 2, "serial", 1),
        (1000, 0.4, 2, "shm", 2),
        (20, 50, 2, "shm", 2),
        (300, 5, 2, "shm", 2),
        (3, 2000, 64, "shm", 3),
        (64, 300, 16, "shm", 16),
    ],
)
def test_the_forecast(num_envs: int, microseconds: float, cpus: int, backend: str, workers: int) -> None:
    data = measured(num_envs, microseconds)
    choice = Verdict(data, forecasts(data, cpus)).choice
    assert (choice.backend, choice.num_workers) == (backend, workers)


@pytest.mark.parametrize(
    ("num_envs", "overlaps", "cpus", "workers", "threads"),
    [(32, False, 2, 2, 16), (2, False, 2, 2, 1), (1000, False, 2, 2, 256), (64, False, 16, 16, 4), (64, True, 2, 1, 1)],
)
def test_the_forecast_for_steps_that_wait(num_envs: int, overlaps: bool, cpus: int, workers: int, threads: int) -> None:
    waiting = 4.9e-3 * (1 if overlaps else num_envs)
    data = measured(num_envs, 5000, seconds=waiting * 50 / 49, waiting_seconds=waiting, overlaps=overlaps)
    choice = Verdict(data, forecasts(data, cpus)).choice
    assert (choice.num_workers, choice.threads_per_worker) == (workers, threads)


def test_coroutines_that_compute_much_move_to_workers() -> None:
    data = measured(64, 0, seconds=20e-3, waiting_seconds=5e-3, overlaps=True)
    choice = Verdict(data, forecasts(data, 2)).choice
    assert (choice.backend, choice.threads_per_worker) == ("shm", 1)


@pytest.mark.parametrize(("slow", "sizes"), [(0, [1, 7]), (1, [2, 6]), (7, [7, 1])])
def test_who_is_slower_than_the_others_shares_a_worker_with_fewer(slow: int, sizes: list[int]) -> None:
    costs = [3e-3 if place == slow else 3e-4 for place in range(8)]
    env_fns = [functools.partial(CostlyEnv, cost) for cost in costs]
    with shoal.ParallelEnv(env_fns) as envs:
        found = play_until_decided(envs)
        pids = envs.call(pid_of)
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == sizes
        assert "Steps of single environments take 300 µs to 3 ms" in envs.plan.reason
        assert f"shares that take equally long: {sizes[0]}, {sizes[1]} environments." in envs.plan.reason
    assert not difference(found, same_played({}, 8, len(found) - 1))


def pid_of(env: Any) -> int:
    return os.getpid()


def test_what_varies_by_chance_is_shared_out_evenly() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        steps = [tuple(random.exponential(3e-4, size=32).tolist()) for _ in range(5)]
        data = measured(32, 300, single_steps=steps)
        choice = next(way for way in forecasts(data, 2) if way.backend == "shm")
        assert not choice.step_costs


def test_too_few_steps_say_nothing_about_single_environments() -> None:
    steps = [(3e-3, *[3e-4] * 7)] * 4
    assert not forecasts(measured(8, 600, single_steps=steps), 2)[0].step_costs
    assert forecasts(measured(8, 600, single_steps=[*steps, *steps]), 2)[0].step_costs


@given(
    costs=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=60),
    num_workers=st.integers(1, 20),
    stays=st.sets(st.integers(0, 59), max_size=3),
)
def test_everybody_has_neighbours_and_nobody_is_left_out(costs: list[float], num_workers: int, stays: set[int]) -> None:
    local = {row for row in stays if row < len(costs)}
    assume(len(local) < len(costs))
    num_workers = min(num_workers, len(costs) - len(local))
    shares = partition(len(costs), num_workers, local, costs)
    assert [row for share in shares for row in share.rows] == list(range(len(costs)))
    assert {row for share in shares if share.is_local for row in share.rows} == local
    if not local:
        bounds = by_cost(costs, num_workers)
        assert len(shares) == num_workers
        assert longest_share(costs, bounds) <= 1 / num_workers + max(costs) * num_workers / sum(costs)


def test_what_is_done_about_infos_and_bytes_is_shared_out_too() -> None:
    """Where it costs as much in one process, it is no reason to stay there."""
    data = measured(32, 6, infos=32.0, result_nbytes=32 * 226)
    assert Verdict(data, forecasts(data, 2)).choice.backend == "serial"  # workers have to tell them first
    data = measured(64, 6, infos=64.0, result_nbytes=64 * 226)
    assert Verdict(data, forecasts(data, 2)).choice.backend == "shm"
    data = measured(32, 5, result_nbytes=32 * 28_000)
    assert Verdict(data, forecasts(data, 2)).choice.backend == "serial"  # copying is what takes the time


def test_a_slow_machine_makes_signals_slow_too_but_not_copying() -> None:
    of_bytes = [forecasts(measured(2, 1, result_nbytes=10**9), 2, slowness)[-1].overhead for slowness in (0.1, 10.0)]
    assert of_bytes[1] < 1.1 * of_bytes[0]
    data = measured(16, 8)
    assert Verdict(data, forecasts(data, 2)).choice.backend == "shm"
    assert Verdict(data, forecasts(data, 2, slowness=2.0)).choice.backend == "serial"
    assert 0.2 < slowness() < 50


def test_threads_of_blas_are_seen() -> None:
    data = measured(20, 300, computing_seconds=0.012)
    assert "keep 2.0 processors busy" in Verdict(data, forecasts(data, 2)).reason
    assert "workers get one thread each" in Verdict(data, forecasts(data, 2)).reason
    data = measured(2, 1, computing_seconds=4e-6)
    assert "set OMP_NUM_THREADS=1 and compare" in Verdict(data, forecasts(data, 2)).reason


def test_durations_are_readable() -> None:
    assert [wording.duration(seconds) for seconds in (2.5, 0.0123, 45e-6, 5e-7)] == [
        "2.5 s",
        "12.3 ms",
        "45 µs",
        "0.5 µs",
    ]


class BrokenEnv(WalkingEnv):
    made = 0

    def __init__(self) -> None:
        BrokenEnv.made += 1
        raise ValueError("no such map")


def test_what_cannot_be_made_is_reported_as_on_any_backend_and_made_once() -> None:
    with pytest.raises(shoal.EnvError, match="environment 0 .*no such map") as caught:
        shoal.make(BrokenEnv, 3)
    assert isinstance(caught.value, ValueError)
    assert BrokenEnv.made == 1


class SlowResetEnv(WalkingEnv):
    """Takes its time to begin."""

    def reset(self, **keywords: Any) -> Any:
        time.sleep(0.02)
        return super().reset(**keywords)


def test_beginnings_are_not_taken_for_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SLOW_TO_BEGIN", 10.0)
    with shoal.make(SlowResetEnv, 4) as envs:
        first, second = envs.split(2)
        for _ in range(3):
            for part in (first, second):
                part.reset()
            for _ in range(3):
                first.step([1, 1])
                second.step([1, 1])
        assert envs.plan.backend == "serial"


def test_a_recording_goes_on_after_a_move() -> None:
    with shoal.make(CostlyEnv, 3, computing=5e-3) as envs:
        envs.reset(seed=0)
        recording = envs.record_arrivals()
        for _ in range(12):
            envs.send([0, 1, 2])
            envs.recv(min_envs=3)
        assert envs.plan.backend == "shm"
        assert sorted(row for arrived in recording for row in arrived) == sorted([0, 1, 2] * 12)


class OnceHereEnv(CostlyEnv):
    """Can be made a few times only in this process."""

    left = 8

    def __init__(self, computing: float, home: int) -> None:
        super().__init__(computing)
        if os.getpid() == home:
            if not OnceHereEnv.left:
                raise OSError("no second window")
            OnceHereEnv.left -= 1


class OnlyHereEnv(CostlyEnv):
    """Cannot be made in another process."""

    def __init__(self, computing: float, home: int) -> None:
        super().__init__(computing)
        if os.getpid() != home:
            raise OSError("the port is in use")


def test_what_cannot_be_made_elsewhere_stays_with_a_warning() -> None:
    with shoal.make(functools.partial(OnlyHereEnv, 2e-3, os.getpid()), 4) as envs:
        with pytest.warns(RuntimeWarning, match="all environments run in this process, .*the port is in use") as warned:
            found = play_until_decided(envs)
        assert len(warned) == 1
        assert envs.plan.backend == "serial"
        assert not envs.closed
    assert not difference(found, same_played({"computing": 2e-3}, 4, len(found) - 1))


class SecretiveEnv(CostlyEnv):
    """Tells something that cannot be pickled: in resets, in every step, or only in steps long after the decision."""

    def __init__(self, tells_in: str, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.tells_in, self.num_steps = tells_in, 0

    def reset(self, **keywords: Any) -> Any:
        observation, info = super().reset(**keywords)
        return observation, {**info, **self.secret("resets")}

    def step(self, action: Any) -> Any:
        self.num_steps += 1
        *result, info = super().step(action)
        return *result, {**info, **self.secret("steps"), **(self.secret("late steps") if self.num_steps > 50 else {})}

    def secret(self, where: str) -> dict[str, Any]:
        return {"simulator": {"lock": threading.Lock()}} if where == self.tells_in else {}


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
@pytest.mark.parametrize("tells_in", ["resets", "steps"])
@pytest.mark.parametrize("how", ["step", "recv"])
def test_infos_that_workers_could_not_send_keep_environments_here(tells_in: str, mode: AutoresetMode, how: str) -> None:
    with shoal.make(SecretiveEnv, 6, tells_in=tells_in, computing=2e-3, autoreset_mode=mode) as envs:
        envs.reset(seed=3)
        for _ in range(60):
            if how == "step":
                envs.step([1] * 6)
            else:
                envs.send([1] * 6)
                envs.recv(6)
        assert (envs.plan.backend, envs._trial) == ("serial", None)
        assert envs.plan.reason.endswith(
            "But infos cannot be sent by worker processes (['simulator']['lock']: TypeError: cannot pickle "
            "'_thread.lock' object), so all stay in this process."
        ), envs.plan.reason


def test_infos_that_cannot_be_sent_after_the_move_are_no_breach_of_contract() -> None:
    with shoal.make(SecretiveEnv, 6, tells_in="late steps", computing=2e-3) as envs:
        envs.reset(seed=3)
        with pytest.raises(shoal.EnvContractError) as caught:
            for _ in range(60):
                envs.step([1] * 6)
        assert envs.plan.backend == "shm"
        text = str(caught.value)
        assert "contract" not in text
        assert (
            "returned what cannot leave its worker process: its info cannot be sent to the caller's process: " in text
        )
        assert "['simulator']['lock']: TypeError: cannot pickle '_thread.lock' object" in text
        assert 'use backend="threads" (or "serial")' in text
        assert (caught.value.episode, caught.value.step) != (0, 0), "it is said where"
        envs.set_attr("tells_in", "nothing")
        envs.reset(seed=3)
        envs.step([1] * 6)


def test_an_interrupted_move_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    with shoal.make(WalkingEnv, 3) as envs, shoal.make(WalkingEnv, 3, backend="serial") as plain:
        for each in (envs, plain):
            each.reset(seed=3)
            each.step([0, 1, 2])
        with monkeypatch.context() as patched:
            patched.setattr(Supervisor, "follow", interrupt)
            patched.setattr(trial.Trial, "is_over", True)
            with pytest.raises(KeyboardInterrupt):
                envs.step_async([2, 2, 2])
        assert (envs.plan.backend, envs._pending, envs.closed) == ("serial", None, False)
        assert not difference(envs.step([2, 1, 0]), plain.step([2, 1, 0]))


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def test_who_saves_or_branches_can_do_so_later_too() -> None:
    with shoal.make(CostlyEnv, 4) as envs:
        envs.reset(seed=0)
        saved = envs.state_dict()
        found = play_until_decided(envs)
        assert (envs.plan.backend, envs.on_fault) == ("serial", "restore")
        assert len(found) > 20
        envs.load_state_dict(saved)
        envs.fork(0, [1])


def test_what_is_no_factory_is_refused_before_anything_is_made() -> None:
    CostlyEnv.made = 0
    wrong: Any = [CostlyEnv, 3]
    with pytest.raises(shoal.ConfigurationError, match=r"env_fns\[1\] is not a callable that makes an environment"):
        shoal.ParallelEnv(wrong)
    assert CostlyEnv.made == 0


def test_the_time_between_making_and_resetting_does_not_count() -> None:
    with shoal.make(CostlyEnv, 4) as envs:
        time.sleep(4 * trial.SLOW_TO_BEGIN + 0.1)
        envs.reset()
        envs.step([0, 0, 0, 0])
        assert envs._trial is not None
