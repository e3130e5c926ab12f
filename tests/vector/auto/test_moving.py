"""Environments move while stepping goes on: nobody waits for workers, and no result is another."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from gymnasium.vector import AutoresetMode

import shoal
from shoal.vector import forked
from shoal.vector.auto import autopilot, comparison, moving, starting, trial, watch
from shoal.vector.auto.moving import Move
from shoal.vector.flights import Flights
from shoal.vector.journal import Journal
from shoal.vector.supervisor import Supervisor
from tests.comparing import difference
from tests.envs import TextEnv
from tests.vector.auto.costly import CLOSE, CostlyEnv, hurry, let_steps_take, make_up_time, step_until

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor leaves no choice")

QUICK_THERE, SLOW_THERE, HERE = 1e-4, 4e-3, 3e-4


@pytest.fixture(autouse=True)
def company(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many other processes are computing: the first of the list."""
    company = [0]
    make_up_time(monkeypatch, company)
    hurry(monkeypatch)
    return company


@pytest.fixture
def here() -> list[float]:
    """What a step takes here: the first of the list."""
    return [HERE]


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch, here: list[float]) -> list[float]:
    """What a step takes in workers: the first of the list."""
    there = [QUICK_THERE]
    let_steps_take(monkeypatch, there, here)
    return there


class Beside:
    """The same environments in a plain loop, which take every step as well."""

    def __init__(self, envs: shoal.ParallelEnv, env_fn: Any = CostlyEnv) -> None:
        self._envs = envs
        self._plain = shoal.make(env_fn, envs.num_envs, backend="serial", autoreset_mode=envs.autoreset_mode)
        self._number = 0
        assert not difference(envs.reset(seed=3), self._plain.reset(seed=3))

    def step(self) -> None:
        actions = [(self._number + row) % 3 for row in range(self._envs.num_envs)]
        self._number += 1
        assert not difference(self._envs.step(actions), self._plain.step(actions)), f"step {self._number}"

    def until(self, backend: str) -> None:
        """Step until they run there."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self._envs.plan.backend == backend and not self._envs._is_undecided:
                return
            self.step()
            time.sleep(0.0005)
        raise AssertionError(f"they are not on {backend}: {self._envs.plan}")

    def until_said(self, words: str) -> None:
        """Step until the plan says so."""
        while words not in self._envs.plan.reason:
            self.step()
            time.sleep(0.0005)

    def close(self) -> None:
        self._plain.close()


@pytest.fixture
def beside() -> Iterator[Any]:
    made: list[Beside] = []

    def make(*arguments: Any) -> Beside:
        made.append(Beside(*arguments))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_to_workers_and_back_and_to_workers_again(
    mode: AutoresetMode, company: list[int], there: list[float], beside: Any
) -> None:
    with shoal.make(CostlyEnv, 8, autoreset_mode=mode, **CLOSE) as envs:
        both = beside(envs)
        both.until("shm")
        company[0], there[0] = 1, SLOW_THERE
        both.until("serial")
        assert " a step of all took 4 ms, where 1" in envs.plan.reason
        assert envs.plan.reason.endswith("were foreseen, which is not worth it.")
        envs._auto._endings[-1].join()  # type: ignore[union-attr]
        assert "memfd:shoal" not in Path("/proc/self/maps").read_text(), "no memory of workers is left"
        company[0], there[0] = 0, QUICK_THERE
        both.until("shm")
        assert "should take about" in envs.plan.reason
        for _ in range(50):
            both.step()
        os.kill(envs.worker_pids[0], signal.SIGKILL)  # what brings them back now has come along twice
        for _ in range(50):
            both.step()
        assert envs.stats.restarts == 1


def test_who_has_stayed_because_of_others_leaves_when_these_are_gone(
    company: list[int], there: list[float], beside: Any
) -> None:
    company[0] = 1
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        both = beside(envs)
        for _ in range(300):
            both.step()
        assert envs.plan.backend == "serial"
        assert envs.plan.reason.count("1 other process was computing.") == 1
        company[0] = 0
        both.until("shm")


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Workers do not start before it is set."""
    gate = threading.Event()
    start = starting.InBackground._start

    def start_later(self: starting.InBackground) -> None:
        gate.wait(60)
        start(self)

    monkeypatch.setattr(starting.InBackground, "_start", start_later)
    yield gate
    gate.set()


def test_nobody_waits_for_workers_to_start(gate: threading.Event, beside: Any) -> None:
    with shoal.make(CostlyEnv, 4, computing=2e-3) as envs:
        both = beside(envs)
        for _ in range(50):
            both.step()
        assert envs.plan.backend == "serial"
        gate.set()
        both.until("shm")


@pytest.fixture
def portions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commands each worker was told to do again, each time."""
    portions: list[int] = []
    continuation = Journal.continuation

    def watched(self: Journal, *arguments: Any) -> Any:
        redo, last = continuation(self, *arguments)
        portions.append(len(redo))
        return redo, last

    monkeypatch.setattr(Journal, "continuation", watched)
    return portions


def test_portions_are_small_where_much_has_been_done(
    gate: threading.Event, portions: list[int], monkeypatch: pytest.MonkeyPatch, beside: Any
) -> None:
    """What was done while workers started is not told at once."""
    monkeypatch.setattr(moving, "MOST_ROUNDS", 16)
    monkeypatch.setattr(moving, "NOTING_SECONDS", 1e9)
    with shoal.make(CostlyEnv, 4, computing=2e-3) as envs:
        both = beside(envs)
        for _ in range(200):
            both.step()
        gate.set()
        both.until("shm")
    assert len(portions) > 2 * 200 / 16
    assert max(portions) <= 16


def test_what_was_before_the_last_resets_is_not_done_again(
    gate: threading.Event, portions: list[int], monkeypatch: pytest.MonkeyPatch, beside: Any
) -> None:
    monkeypatch.setattr(moving, "NOTING_SECONDS", 0.0)
    with shoal.make(CostlyEnv, 4, computing=2e-3) as envs:
        both = beside(envs)
        for _ in range(400):
            both.step()
        gate.set()
        both.until("shm")
        os.kill(envs.worker_pids[1], signal.SIGKILL)
        for _ in range(20):
            both.step()
    assert sum(portions) < 2 * 250, "those of 400 that were taken before are not among them"


def test_what_does_not_begin_anew_with_a_reset_does_everything_again(
    gate: threading.Event, portions: list[int], monkeypatch: pytest.MonkeyPatch, beside: Any
) -> None:
    monkeypatch.setattr(moving, "NOTING_SECONDS", 0.0)
    monkeypatch.setattr(moving, "REHEARSED_STEPS", 0)  # or the reset that was noted just now would not be enough
    env_fn = functools.partial(RamblingEnv, 2e-3)
    with shoal.make(env_fn, 4) as envs:
        both = beside(envs, RamblingEnv)
        for _ in range(100):
            both.step()
        gate.set()
        both.until("shm")
        for _ in range(20):
            both.step()
        assert not envs._auto._trusts_resets  # type: ignore[union-attr]
    assert sum(portions) > 2 * 100


@pytest.mark.parametrize("what", ["call", "set_attr", "reset some", "reset all", "send", "tasks"])
def test_whatever_happens_on_the_way_comes_along(what: str) -> None:
    tasks = [shoal.Task(seed=seed) for seed in range(5)] if what == "tasks" else None

    def play(backend: str, is_enough: Any) -> list[Any]:
        with shoal.make(functools.partial(CostlyEnv, 2e-3), 4, backend=backend, tasks=tasks) as envs:
            results: list[Any] = [envs.reset(seed=None if tasks else 3)]
            for number in itertools.count():
                if is_enough(number, envs):
                    return results
                if what == "call":
                    envs.call("set_wrapper_attr", "start", float(number))
                elif what == "set_attr":
                    envs.set_attr("start", [float(number + row) for row in range(4)])
                elif what == "reset some" and number % 7 == 0:
                    results.append(envs.reset(seed=number, env_ids=[1, 2]))
                elif what == "reset all" and number % 9 == 0:
                    results.append(envs.reset(seed=number))
                if what == "send":
                    envs.send([number % 3] * 4)
                    results.append(envs.recv(env_ids=[3, 1, 0, 2]))
                else:
                    results.append(envs.step([number % 3] * 4))
        raise AssertionError("unreachable")

    arrived: list[int] = []

    def has_settled_in(number: int, envs: shoal.ParallelEnv) -> bool:
        time.sleep(0.002)
        if not arrived and envs.plan.backend == "shm":
            arrived.append(number)
        return bool(arrived) and number > arrived[0] + 20

    found = play("auto", has_settled_in)
    steps = arrived[0] + 21
    assert not difference(found, play("serial", lambda number, _: number == steps))


def test_text_moves_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial.Trial, "verdict", lambda *_: None)
    monkeypatch.setattr(trial.Trial, "is_over", True)
    with shoal.make(TextEnv, 3) as envs, shoal.make(TextEnv, 3, backend="serial") as plain:
        results: list[Any] = []
        for each in (envs, plain):
            each.action_space.seed(7)
            results.append([each.reset(seed=7)])
        while envs.plan.backend == "serial":
            for each, its in zip((envs, plain), results, strict=True):
                its.append(each.step(each.action_space.sample()))
            time.sleep(0.001)
        assert not difference(results[0], results[1])


def test_saving_and_branching_on_the_way(there: list[float]) -> None:
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        envs.reset(seed=0)
        while envs._auto is None or envs._auto.move is None:
            envs.step([1] * 8)
        saved = envs.state_dict()
        envs.fork(0, [1])
        step_until(envs, "shm")
        envs.load_state_dict(saved)
        both = [envs.step([2] * 8)[0] for _ in range(5)]
        envs.load_state_dict(saved)
        assert not difference(both, [envs.step([2] * 8)[0] for _ in range(5)])


def test_saving_where_a_reset_is_no_beginning(company: list[int], there: list[float]) -> None:
    company[0] = 1
    with shoal.make(functools.partial(RamblingEnv, 30e-6), 8) as envs:
        envs.reset(seed=3)
        journal: Any = envs._session.supervisor.journal  # type: ignore[union-attr]
        while not journal.starts:
            journal.seconds += 0.02  # as if it took long
            envs.step([1] * 8)
        saved = envs.state_dict()
        first = [envs.step([2] * 8)[1] for _ in range(20)]
        envs.load_state_dict(saved)
        assert not difference(first, [envs.step([2] * 8)[1] for _ in range(20)])
        envs.fork(0, [1])
        assert len(set(envs.step([2] * 8)[1][:2])) == 1


def test_saving_where_they_have_come_back(company: list[int], there: list[float]) -> None:
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        envs.reset(seed=3)
        step_until(envs, "shm")
        company[0], there[0] = 1, SLOW_THERE
        step_until(envs, "serial")
        saved = envs.state_dict()
        first = [envs.step([2] * 8)[0] for _ in range(20)]
        envs.load_state_dict(saved)
        assert not difference(first, [envs.step([2] * 8)[0] for _ in range(20)])


@pytest.mark.parametrize("when", ["starting", "on the way", "coming back"])
def test_closing_on_the_way_leaves_nothing(when: str, company: list[int], there: list[float]) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    envs = shoal.make(CostlyEnv, 8, **CLOSE)
    envs.reset(seed=3)
    if when == "coming back":
        step_until(envs, "shm")
        company[0], there[0] = 1, SLOW_THERE
    while envs._auto is None or envs._auto.move is None or (when == "on the way" and envs._auto.move._follower is None):
        envs.step([1] * 8)
    envs.close()
    with pytest.raises(shoal.Closed):
        envs.step([1] * 8)
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    assert all("shoal-starting" not in thread.name for thread in threading.enumerate())
    assert not [child for child in left if child.status() != psutil.STATUS_ZOMBIE and "nursery" not in child.name()]


class OnceHereEnv(CostlyEnv):
    """Can be made a few times only in this process."""

    left = 8

    def __init__(self, computing: float, home: int) -> None:
        super().__init__(computing)
        if os.getpid() == home:
            if not OnceHereEnv.left:
                raise OSError("no second window")
            OnceHereEnv.left -= 1


def test_what_cannot_come_back_stays_in_workers(there: list[float], beside: Any) -> None:
    OnceHereEnv.left = 8
    with shoal.make(functools.partial(OnceHereEnv, 30e-6, os.getpid()), 8) as envs:
        both = beside(envs)
        both.until("shm")
        there[0] = SLOW_THERE
        both.until_said("cannot come back")
        assert envs.plan.backend == "shm"
        assert "It takes 4 ms, but they cannot come back: " in envs.plan.reason
        assert "no second window" in envs.plan.reason
        for _ in range(20):
            both.step()


@pytest.mark.parametrize("why", ["a worker has died", "it would take too long", "halves", "captured states"])
def test_some_stay_in_workers_in_any_case(why: str, there: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        envs.reset(seed=3)
        step_until(envs, "shm")
        if why == "a worker has died":
            os.kill(envs.worker_pids[0], signal.SIGKILL)
            envs.get_attr("computing")
            assert envs.stats.restarts == 1
        elif why == "it would take too long":
            monkeypatch.setattr(autopilot, "LONGEST_SECONDS", -1.0)
        elif why == "halves":
            for part in envs.split(2):
                part.step([0] * 4)
        else:
            journal = envs._pool.backend.journal  # type: ignore[attr-defined]
            journal.bases[0] = journal.last_sequence, b""
        there[0] = SLOW_THERE
        for _ in range(50):
            envs.step([0] * 8)
        assert envs.plan.backend == "shm"
        assert "should take about" in envs.plan.reason


def test_nobody_comes_back_while_they_are_profiled(there: list[float]) -> None:
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        envs.reset(seed=3)
        step_until(envs, "shm")
        there[0] = SLOW_THERE
        with envs.profile() as profile:
            for _ in range(50):
                envs.step([0] * 8)
        assert profile.plan.backend == "shm"
        step_until(envs, "serial")


class RamblingEnv(CostlyEnv):
    """What it does in an episode depends on how many there have been. So it cannot begin at a reset."""

    episodes = 0

    def reset(self, **keywords: Any) -> Any:
        self.episodes += 1
        return super().reset(**keywords)

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, float(reward) + self.episodes, *rest


def test_where_a_reset_is_no_beginning_they_stay_here(company: list[int], there: list[float], beside: Any) -> None:
    """What is kept in this process may begin at a reset, which is found out when they are to move."""
    company[0] = 1
    with shoal.make(functools.partial(RamblingEnv, 30e-6), 8) as envs:
        both = beside(envs, RamblingEnv)
        assert envs._session.supervisor is not None
        journal: Any = envs._session.supervisor.journal
        while not journal.starts:
            journal.seconds += 0.02  # as if it took long
            both.step()
        company[0] = 0
        with pytest.warns(RuntimeWarning, match="all environments run in this process, .*gave another result"):
            both.until_said("But they cannot run elsewhere")
        for _ in range(50):
            both.step()


def test_who_came_back_for_nothing_goes_again_and_is_slower_to_come_back(there: list[float], here: list[float]) -> None:
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        envs.reset(seed=3)
        step_until(envs, "shm")
        there[0], here[0] = HERE * 2, HERE * 10  # steps have become dearer everywhere
        step_until(envs, "serial")
        step_until(envs, "shm")
        assert envs._auto is not None
        assert envs._auto._patience == 4 * comparison.NUM_WINDOWS


def test_who_goes_to_and_fro_stays_longer_and_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "FIRST_PAUSE", 0.5)
    monkeypatch.setattr(watch, "LONGEST_PAUSE", 60.0)
    pace, now, moves = watch.Pace(), 1000.0, list[float]()
    while now < 2000.0:
        now += 0.01
        if pace.may_move(now):
            pace.note_move(now)
            moves.append(now)
    assert np.diff(moves)[0] < 1.0
    assert max(np.diff(moves)) < 61.0
    assert len(moves) < 30
    now += 1000.0
    pace.note_move(now)
    assert pace.may_move(now + 1.0), "after a long stay, the first pause is short again"


def test_a_move_that_is_interrupted_leaves_everything_as_it_was(there: list[float], beside: Any) -> None:
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        both = beside(envs)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Move, "go_on", interrupt)
            while envs._auto is None or envs._auto.move is None:
                both.step()
            with pytest.raises(KeyboardInterrupt):
                envs.step([2] * 8)
        assert (envs.plan.backend, envs._session.pending, envs.closed) == ("serial", None, False)
        both.until("shm")
        there[0] = SLOW_THERE
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Flights, "take_over", press_ctrl_c)
            with pytest.raises(KeyboardInterrupt):
                both.until("serial")
        assert (envs.plan.backend, envs._session.pending, envs.closed) == ("serial", None, False)
        both._number -= 1  # that step was not taken
        for _ in range(50):
            both.step()


class ImpatientEnv(CostlyEnv):
    """Is interrupted in the first step of some episodes."""

    def step(self, action: Any) -> Any:
        if self.start == 5.0:
            raise KeyboardInterrupt
        return super().step(action)


def test_after_a_step_that_was_interrupted_all_stay_here(there: list[float]) -> None:
    """Some have taken it and some have not, so what is written down is not what has happened."""
    with shoal.make(functools.partial(ImpatientEnv, 30e-6), 8) as envs:
        envs.reset(seed=3, options=[{"from": 5.0} if row == 4 else None for row in range(8)])
        with pytest.raises(KeyboardInterrupt):
            envs.step([1] * 8)
        envs.reset(seed=5)
        for _ in range(400):
            envs.step([1] * 8)
        assert envs.plan.backend == "serial"
        assert envs.plan.reason.endswith("But a step was interrupted, so all stay in this process.")


@pytest.mark.parametrize("how", ["send", "split"])
@pytest.mark.parametrize("why", ["too cheap", "cannot run elsewhere"])
def test_who_is_under_way_when_it_is_decided_to_stay_is_received_all_the_same(how: str, why: str) -> None:
    computing = 1e-6 if why == "too cheap" else 2e-3
    env_fn: Any = functools.partial(CostlyEnv, computing)
    if why != "too cheap":
        env_fn = functools.partial(OnceHereEnv, computing, os.getpid())
        OnceHereEnv.left = 4

    def play(envs: shoal.ParallelEnv) -> list[Any]:
        results: list[Any] = [envs.reset(seed=3)[0]]
        first, second = envs.split(2)
        if how == "send":
            envs.send([1, 1], [0, 2])
        else:
            first.step_async([1, 1])
        for number in range(400):
            if how == "send":
                envs.send([number % 3] * 2, [1, 3])
                results.append(envs.recv(env_ids=[0, 2], timeout=20)[1:4])
                envs.send([number % 3] * 2, [0, 2])
                results.append(envs.recv(env_ids=[1, 3], timeout=20)[1:4])
            else:
                second.step_async([number % 3] * 2)
                results.append(first.step_wait()[:4])
                first.step_async([number % 3] * 2)
                results.append(second.step_wait()[:4])
        return results

    with shoal.make(env_fn, 4) as envs:
        found = play(envs) if why == "too cheap" else play_warned(play, envs)
        assert envs.plan.backend == ("serial" if why == "too cheap" else envs.plan.backend)
    with shoal.make(CostlyEnv, 4, backend="serial") as plain:
        assert not difference(found, play(plain))


def play_warned(play: Any, envs: shoal.ParallelEnv) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return play(envs)


def test_branching_now_and_then_does_not_keep_anybody_here(there: list[float]) -> None:
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs, shoal.make(CostlyEnv, 8, backend="serial") as plain:
        for each in (envs, plain):
            each.reset(seed=3)
        end = time.monotonic() + 60
        while envs.plan.backend == "serial" or envs._is_undecided:
            assert time.monotonic() < end
            for number in range(10):
                assert not difference(envs.step([number % 3] * 8)[:4], plain.step([number % 3] * 8)[:4])
            for each in (envs, plain):
                each.reset(seed=5, env_ids=[0])
                each.fork(0, [1, 5])
        for number in range(30):
            assert not difference(envs.step([number % 3] * 8)[:4], plain.step([number % 3] * 8)[:4])


def test_a_warning_that_is_an_error_is_raised_once_and_costs_nothing() -> None:
    with shoal.make(functools.partial(OnlyHereEnv, 2e-3, os.getpid()), 4) as envs:
        envs.reset(seed=3)
        with pytest.raises(RuntimeWarning, match="the port is in use"):
            for _ in range(4000):
                envs.step([1] * 4)
                time.sleep(0.005)
        for _ in range(50):
            envs.step([1] * 4)
        assert envs.plan.backend == "serial"
        assert not envs._is_undecided


class OnlyHereEnv(CostlyEnv):
    """Cannot be made in another process."""

    def __init__(self, computing: float, home: int) -> None:
        super().__init__(computing)
        if os.getpid() != home:
            raise OSError("the port is in use")


class SecretiveEnv(CostlyEnv):
    """Tells in some steps what cannot be sent."""

    num_steps = 0

    def step(self, action: Any) -> Any:
        self.num_steps += 1
        *results, info = super().step(action)
        return *results, {**info, "lock": threading.Lock()} if self.num_steps == 250 else info


def test_what_was_told_here_long_after_the_first_steps_counts_too(company: list[int], there: list[float]) -> None:
    company[0] = 1
    with shoal.make(functools.partial(SecretiveEnv, 30e-6), 8) as envs:
        envs.reset(seed=3)
        for _ in range(300):
            envs.step([1] * 8)
        company[0] = 0
        for _ in range(300):
            envs.step([1] * 8)
        assert envs.plan.backend == "serial"
        assert "But infos cannot be sent by worker processes" in envs.plan.reason


def test_workers_that_never_start_do_not_let_memory_grow(
    gate: threading.Event, there: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autopilot, "MUCH_HISTORY", 2**14)
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        envs.reset(seed=3)
        for _ in range(500):
            envs.step([1] * 8)
        assert envs.plan.backend == "serial"
        assert envs.plan.reason.endswith("But they have done too much to do all of it again elsewhere.")
        gate.set()


def test_environments_that_are_dropped_while_workers_start_leave_nothing(there: list[float]) -> None:
    before = set(psutil.Process().children(recursive=True))
    envs = shoal.make(HangingThereEnv, 4)
    envs.reset(seed=3)
    while envs._auto is None or envs._auto.move is None:
        envs.step([1] * 4)
    time.sleep(0.5)
    del envs
    gc.collect()
    end = time.monotonic() + 20
    while any(thread.name == "shoal-starting" for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.05)
    left = [each for each in psutil.Process().children(recursive=True) if each not in before]
    assert not [each for each in left if each.status() != psutil.STATUS_ZOMBIE and is_worker(each)]


class HangingThereEnv(CostlyEnv):
    """Is never made in another process."""

    home = os.getpid()

    def __init__(self) -> None:
        super().__init__(2e-3)
        while os.getpid() != HangingThereEnv.home:
            time.sleep(1.0)

    def __reduce__(self) -> Any:
        raise TypeError


def is_worker(process: psutil.Process) -> bool:
    try:
        return bool(process.parent() != psutil.Process())  # workers are children of the fork server
    except psutil.NoSuchProcess:
        return False


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def press_ctrl_c(*_: Any) -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_forked_copy_of_the_program_does_not_move(there: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        envs.reset(seed=3)
        step_until(envs, "shm")
        there[0] = SLOW_THERE
        for _ in range(6):
            envs.step([0] * 8)
        with monkeypatch.context() as patched:
            patched.setattr(forked.HERE, "pid", 4711)
            with pytest.raises(shoal.ShoalError, match="cannot be used in a process forked from it"):
                envs.step([0] * 8)
        assert envs.plan.backend == "shm"


def test_a_worker_that_dies_on_the_way_keeps_them_here(
    there: list[float], monkeypatch: pytest.MonkeyPatch, beside: Any
) -> None:
    left, killed = Supervisor.replays_left, set[int]()

    def kill_one(self: Supervisor, timeout: float | None) -> int:
        if self._following and not self.in_process and id(self) not in killed:
            killed.add(id(self))
            os.kill(self.backend.pid(0), signal.SIGKILL)  # type: ignore[attr-defined]
            time.sleep(0.05)
        return left(self, timeout)

    monkeypatch.setattr(Supervisor, "replays_left", kill_one)
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        both = beside(envs)
        with pytest.warns(RuntimeWarning, match="has died meanwhile"):
            both.until_said("cannot run elsewhere")
        for _ in range(20):
            both.step()


def test_environments_that_seed_themselves_are_the_same_elsewhere(there: list[float]) -> None:
    """Nobody has given a seed. If they drew other random numbers there, the move would find other results and be given up."""
    with shoal.make(CostlyEnv, 8, **CLOSE) as envs:
        envs.reset()
        step_until(envs, "shm")
        assert envs.plan.backend == "shm"
