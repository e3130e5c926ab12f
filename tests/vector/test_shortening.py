"""The history of environments stays short, and they are brought back all the same."""

from __future__ import annotations

import functools
import logging
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import NormalizeObservation

import shoal
from shoal import ParallelEnv
from shoal.vector import crowd, shortening, supervisor, upkeep
from shoal.vector.backends import limits, worker
from shoal.vector.crowd import GivingWay
from tests.comparing import difference
from tests.envs import CountingEnv, SilentEnv, SpaceEnv, WalkingEnv


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever can begin at a reset does so soon."""
    monkeypatch.setattr(shortening, "WORTHWHILE_SECONDS", 0.0)
    monkeypatch.setattr(shortening, "LONG_SECONDS", 1e9)
    monkeypatch.setattr(supervisor, "MAINTENANCE", 4)
    monkeypatch.setattr(upkeep, "REST_PAUSE", 0.0)
    monkeypatch.setattr(limits, "NICENESS", 0)


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> None:
    """States are captured soon, too."""
    monkeypatch.setattr(shortening, "LONG_SECONDS", 0.02)
    monkeypatch.setattr(shortening, "CAPTURE_SHARE", 1.0)


def rounds(envs: ParallelEnv) -> int:
    return len(envs._pool.backend.journal.rounds)  # type: ignore[attr-defined]


def habits(envs: ParallelEnv) -> Any:
    return envs._pool.backend.upkeep.shortener._habits  # type: ignore[attr-defined]


def step(envs: ParallelEnv, number: int) -> Any:
    return envs.step([(number + row) % 3 for row in range(envs.num_envs)])


def run_until(envs: ParallelEnv, is_so: Any) -> int:
    """Step until something has happened in the background; returns how many steps that took."""
    for number in range(50_000):
        if is_so():
            return number
        step(envs, number)
    raise AssertionError("it has not happened")


def compare_after_kill(envs: ParallelEnv, taken: int, env_fn: Any, **keywords: Any) -> None:
    """Kill everybody, and compare what follows with an undisturbed run of the same length."""
    for pid in envs.worker_pids:
        os.kill(pid, signal.SIGKILL)
    found = [step(envs, taken + number) for number in range(30)]
    with ParallelEnv([env_fn] * envs.num_envs, backend="serial", **keywords) as plain:
        plain.reset(seed=3)
        for number in range(taken):
            step(plain, number)
        assert not difference(found, [step(plain, taken + number) for number in range(30)])


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.value)
def test_resets_that_passed_a_rehearsal_are_relied_on(process_backend: str, mode: AutoresetMode) -> None:
    with ParallelEnv(
        [WalkingEnv] * 6, backend=process_backend, num_workers=2, start_method="fork", autoreset_mode=mode
    ) as envs:
        envs.reset(seed=3)
        taken = run_until(envs, lambda: all(shortening.Way.RESETS in each.relies_on for each in habits(envs)))
        for number in range(20):
            step(envs, taken + number)
        assert rounds(envs) < 20
        compare_after_kill(envs, taken + 20, WalkingEnv, autoreset_mode=mode)
        assert envs.stats.restarts == 2
        assert envs.stats.replayed_steps < 6 * 20


@pytest.mark.parametrize(
    ("way", "env_fn"),
    [("halves", SilentEnv), ("halves", WalkingEnv), ("first-ready", SilentEnv)],
    ids=["halves", "halves with infos", "first-ready"],
)
def test_workers_that_are_never_idle_have_a_short_history_too(process_backend: str, way: str, env_fn: Any) -> None:
    with ParallelEnv([env_fn] * 6, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=3)
        parts, taken = envs.split(2), [0] * 6
        sent = [part.env_ids for part in parts]
        for part in parts:
            part.step_async(np.array([0, 0, 0]))
        for number in range(50_000):
            its = sent[number % 2]
            if way == "halves":
                parts[number % 2].step_wait()
                parts[number % 2].step_async(np.array([0, 0, 0]))
            else:
                envs.recv(env_ids=its)
                envs.send(np.array([0, 0, 0]), its)
            for row in its:
                taken[row] += 1
            if number > 500 and rounds(envs) < 60:
                break
        else:
            raise AssertionError("the history has only grown")
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        found = [envs.recv(env_ids=its)[1:] for its in sent]
        assert envs.stats.replayed_steps < 6 * 60
    with ParallelEnv([env_fn] * 6, backend="serial") as plain:
        plain.reset(seed=3)
        steps = [plain.step([0] * 6)[:4] for _ in range(max(taken) + 1)]
        for its, batch in zip(sent, found, strict=True):
            assert not difference(batch[:4], tuple(values[its] for values in steps[taken[its[0]]]))


@pytest.mark.usefixtures("captures")
def test_what_depends_on_past_episodes_is_captured(process_backend: str) -> None:
    def make() -> Any:
        return NormalizeObservation(WalkingEnv())

    with ParallelEnv([make] * 3, backend=process_backend, num_workers=1, start_method="fork") as envs:
        envs.reset(seed=3)
        taken = run_until(envs, lambda: shortening.Way.CAPTURES in habits(envs)[0].relies_on)
        assert shortening.Way.RESETS not in habits(envs)[0].relies_on
        assert rounds(envs) < taken, "what was before is gone"
        compare_after_kill(envs, taken, make)


@pytest.mark.usefixtures("captures")
def test_random_numbers_that_all_share_are_captured_too(process_backend: str) -> None:
    class GlobalEnv(WalkingEnv):
        def step(self, action: Any) -> Any:
            observation, reward, *rest = super().step(action)
            return observation, reward + np.random.random(), *rest

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            if seed is not None:
                np.random.seed(seed)
            return super().reset(seed=seed, options=options)

    # More than a rehearsal takes, which finds that some alone do not come to the same, and tries all.
    with ParallelEnv([GlobalEnv] * 6, backend=process_backend, num_workers=1, start_method="fork") as envs:
        envs.reset(seed=3)
        taken = run_until(envs, lambda: shortening.Way.CAPTURES in habits(envs)[0].relies_on)
        assert habits(envs)[0].share_something
        compare_after_kill(envs, taken, GlobalEnv)


def test_a_long_rehearsal_reaches_the_spare_worker_however_fast_steps_are(
    process_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than its socket takes at once; nobody ever has to wait for an answer, and so for room in it."""
    monkeypatch.setattr(shortening, "WORTHWHILE_SECONDS", 0.5)
    monkeypatch.setattr(shortening, "REHEARSED_SECONDS", 10.0)
    with ParallelEnv([SilentEnv] * 8, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=3)
        run_until(envs, lambda: habits(envs)[0].relies_on)


class NiceEnv(WalkingEnv):
    """Writes down how nice the process is in which it is reset, and how it takes down who is at work."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self.log = log

    def reset(self, **keywords: Any) -> Any:
        with self.log.open("a") as file:
            here = worker.HERE
            gives_way = here is not None and isinstance(here.runner.slice.progress, GivingWay)
            print(os.getpid(), os.getpriority(os.PRIO_PROCESS, 0), int(gives_way), file=file)
        return super().reset(**keywords)


@pytest.mark.parametrize("has_time", [True, False])
def test_who_rehearses_lets_others_go_first_if_there_is_time(
    process_backend: str, has_time: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There is none where the journal would be full before it is over."""
    monkeypatch.setattr(limits, "NICENESS", 3)
    monkeypatch.setattr(shortening, "FAST_GROWTH", 1e18 if has_time else 0)
    own, log = os.getpriority(os.PRIO_PROCESS, 0), tmp_path / "log"
    with ParallelEnv(
        [functools.partial(NiceEnv, log)] * 2, backend=process_backend, num_workers=1, start_method="fork"
    ) as envs:
        envs.reset(seed=3)
        run_until(envs, lambda: habits(envs)[0].relies_on)
        (pid,) = envs.worker_pids
    found = {tuple(map(int, line.split())) for line in log.read_text().splitlines()}
    assert {each[1:] for each in found if each[0] == pid} == {(own, 0)}
    rehearsed = {each[1:] for each in found if each[0] != pid}
    assert rehearsed == {(min(19, own + 3), 1) if has_time else (own, 0)}


@pytest.mark.parametrize("in_halves", [False, True])
def test_it_is_known_how_fast_history_grows(in_halves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortening, "WORTHWHILE_SECONDS", 1e9)
    with ParallelEnv([SilentEnv] * 4, backend="shm", num_workers=2, start_method="fork") as envs:
        envs.reset(seed=3)
        parts = envs.split(2) if in_halves else (envs,)
        for _ in range(100):
            for part in parts:
                part.step(part.action_space.sample())
        supervisor: Any = envs._pool.backend
        supervisor.count_time()
        journal = supervisor.journal
        expected = journal.rounds.nbytes / journal.seconds
        assert 0.5 * expected < journal.bytes_per_second() < 2 * expected


def test_who_gives_way_does_so_before_every_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(crowd, "give_way", lambda: calls.append(1))
    monkeypatch.setattr(crowd, "SHORT_SECONDS", 0.0)
    progress = [0]
    giving_way = GivingWay(progress)
    for row in range(5):
        giving_way[0] = row + 1
        assert progress == [row + 1]
    assert len(calls) == 5
    monkeypatch.setattr(crowd, "SHORT_SECONDS", 1e9)
    giving_way[0] = 0
    assert len(calls) == 5, "not so soon again"


@pytest.mark.usefixtures("captures")
def test_a_captured_state_is_rehearsed_with_some_of_many(process_backend: str) -> None:
    class Endless(WalkingEnv):
        def step(self, action: Any) -> Any:
            observation, reward, _, _, info = super().step(action)
            return observation, reward, False, False, info

    with ParallelEnv([Endless] * 12, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=3)
        taken = run_until(envs, lambda: len(envs._pool.backend.journal.bases) == 2)  # type: ignore[attr-defined]
        assert not habits(envs)[0].share_something
        compare_after_kill(envs, taken, Endless)


def made_in(place: str, number: int) -> Any:
    return lambda: WalkingEnv() if place else CountingEnv(number)


def test_workers_with_the_same_environments_share_a_verdict(
    process_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "shoal.vector.shortening")
    env_fns = [*(made_in("here", 1) for _ in range(4)), *(made_in("here", 2) for _ in range(2))]
    with ParallelEnv(env_fns, backend=process_backend, num_workers=3, start_method="fork") as envs:
        envs.reset(seed=3)
        taken = run_until(envs, lambda: all(shortening.Way.RESETS in each.relies_on for each in habits(envs)))
        told = [
            record.getMessage() for record in caplog.records if "can begin at a reset without" in record.getMessage()
        ]
        assert len(told) == 2, (
            "one of the first two workers, and the third, whose environments are made with another number"
        )
        compare_after_kill(envs, taken, WalkingEnv)


def test_what_makes_the_same_is_of_a_kind() -> None:
    def recursive() -> Any:
        return recursive

    class Made:
        pass

    partials = [functools.partial(CountingEnv, length=length) for length in (5, 5, 6)]
    kinds = [shortening.kind_of(each) for each in partials]
    assert kinds[0] == kinds[1] != kinds[2]
    assert shortening.kind_of(made_in("a", 1)) == shortening.kind_of(made_in("a", 1))
    assert shortening.kind_of(made_in("a", 1)) != shortening.kind_of(made_in("b", 1))
    assert shortening.kind_of(made_in("a", 1)) != shortening.kind_of(made_in("a", True))
    assert shortening.kind_of(recursive) == shortening.kind_of(recursive)
    assert shortening.kind_of(Made) != shortening.kind_of(CountingEnv)


def test_attributes_and_calls_survive(process_backend: str) -> None:
    with ParallelEnv([CountingEnv] * 2, backend=process_backend, num_workers=1, start_method="fork") as envs:
        envs.reset(seed=3)
        envs.set_attr("length", [5, 7])
        for number in range(300):
            step(envs, number)
        envs.set_attr("label", "late")
        for number in range(300):
            step(envs, number)
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        step(envs, 0)
        assert envs.get_attr("length") == (5, 7)
        assert envs.get_attr("label") == ("late", "late")


@pytest.mark.usefixtures("captures")
def test_what_can_be_neither_keeps_its_whole_history(process_backend: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "shoal.vector.shortening")

    class StubbornEnv(WalkingEnv):
        def __init__(self) -> None:
            super().__init__()
            self.lock, self.episodes = threading.Lock(), 0  # a lock cannot be pickled

        def reset(self, **keywords: Any) -> Any:
            self.episodes += 1
            return super().reset(**keywords)

        def step(self, action: Any) -> Any:
            observation, reward, *rest = super().step(action)
            return observation, reward + self.episodes, *rest

    with ParallelEnv([StubbornEnv] * 2, backend=process_backend, num_workers=1, start_method="fork") as envs:
        envs.reset(seed=3)
        everything = {shortening.Way.RESETS, shortening.Way.CAPTURES}
        taken = run_until(envs, lambda: set(habits(envs)[0].refused) >= everything)
        assert rounds(envs) == taken + 1
        assert "cannot begin at a reset without a seed: environment" in caplog.text
        assert "cannot be captured: TypeError" in caplog.text
        compare_after_kill(envs, taken, StubbornEnv)


def test_a_history_that_is_too_long_is_given_up_with_a_warning(
    process_backend: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upkeep, "LARGEST", 20_000)
    monkeypatch.setattr(shortening, "WORTHWHILE_SECONDS", 1e9)
    fns = [functools.partial(SpaceEnv, spaces.Discrete(9), spaces.Discrete(3))] * 2
    with ParallelEnv(fns, backend=process_backend, num_workers=1, start_method="fork") as envs:
        envs.reset(seed=3)
        for number in range(2000):
            step(envs, number)
        assert "has become too long to be kept" in caplog.text
        assert rounds(envs) < 10
        with pytest.raises(shoal.StateError, match=r"state_dict\(\) is not possible: the history .* too long"):
            envs.state_dict()
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        with pytest.raises(shoal.WorkerCrashLoop, match="their history had become too long to be kept"):
            step(envs, 0)
    with ParallelEnv(fns, backend=process_backend, num_workers=1, start_method="fork", on_fault="truncate") as envs:
        envs.reset(seed=3)
        for number in range(2000):
            step(envs, number)
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        *_, truncated, info = step(envs, 0)
        assert truncated.all()
        assert info["fault"]["signal"].tolist() == ["SIGKILL", "SIGKILL"]
        step(envs, 1)


def test_the_spare_worker_may_die_at_any_time(process_backend: str) -> None:
    with ParallelEnv([WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=3)
        backend = envs._pool.unwatched
        assert backend.start_spare()
        os.kill(backend.crew[2].process.pid, signal.SIGKILL)
        for number in range(50):
            step(envs, number)
        compare_after_kill(envs, 50, WalkingEnv)


def test_a_spare_worker_takes_the_place_of_a_dead_one(process_backend: str) -> None:
    with ParallelEnv([WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=3)
        for number in range(5):
            step(envs, number)
        backend = envs._pool.unwatched
        backend.end_spare()
        assert backend.start_spare()
        spare = backend.crew[2].process.pid
        os.kill(envs.worker_pids[1], signal.SIGKILL)
        found = [step(envs, 5 + number) for number in range(10)]
        assert envs.worker_pids[1] == spare
        with ParallelEnv([WalkingEnv] * 4, backend="serial") as plain:
            plain.reset(seed=3)
            expected = [step(plain, number) for number in range(15)]
        assert not difference(found, expected[5:])
