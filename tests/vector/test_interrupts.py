"""Signals whose handlers raise, at every possible moment: nothing hangs, nothing is done twice, no reply is lost."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import numpy as np
import pytest

import shoal
from shoal import EnvList, ParallelEnv
from shoal.vector import supervisor
from shoal.vector.interrupts import allowed, postponed
from tests.envs import SlowEnv, counting

OURS = "shoal.vector."


class Alarm(Exception):
    """Raised by the handler of a signal, as a program's own time limit would."""


class Limit(BaseException):
    """As some test runners raise: no ordinary exception."""


@pytest.fixture(params=[Alarm, Limit])
def raised(request: pytest.FixtureRequest) -> Iterator[type[BaseException]]:
    """What a handler of SIGUSR1 raises."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise request.param

    before = signal.signal(signal.SIGUSR1, handle)
    yield request.param
    signal.signal(signal.SIGUSR1, before)


class InterruptAt:
    """Sends this process a signal when so many instructions, or lines, of Shoal have been run."""

    def __init__(self, moment: int, *, instructions: bool, number: int = signal.SIGINT) -> None:
        self._left = moment
        self._instructions = instructions
        self._number = number
        self.has_come = False

    def __enter__(self) -> InterruptAt:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_globals.get("__name__", "").startswith(OURS):
            return None
        frame.f_trace_opcodes = self._instructions
        if event == ("opcode" if self._instructions else "line"):
            self._left -= 1
            if self._left == 0:
                self.has_come = True
                signal.raise_signal(self._number)
        return self._trace


def moments(
    act: Callable[[], object],
    *,
    instructions: bool,
    every: int = 1,
    number: int = signal.SIGINT,
    raised: type[BaseException] = KeyboardInterrupt,
) -> Iterator[int]:
    """All moments at which ``act`` can be interrupted, one after the other; the caller acts in between."""
    moment = 1
    while True:
        with InterruptAt(moment, instructions=instructions, number=number) as interrupt:
            try:
                act()
            except raised:
                assert interrupt.has_come
            else:
                assert not interrupt.has_come, f"the interrupt at moment {moment} was swallowed"
                return
        yield moment
        moment += every


@contextmanager
def made(backend: str, **keywords: Any) -> Iterator[ParallelEnv]:
    with ParallelEnv([counting(100_000)] * 4, backend=backend, num_workers=2, start_method="fork", **keywords) as envs:
        envs.reset()
        yield envs


def test_an_interrupted_list_can_be_waited_for(process_backend: str) -> None:
    with EnvList([counting(100_000)] * 3, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=1)
        expected = 0
        for _ in moments(lambda: envs.step([0, 0], env_ids=[2, 0]), instructions=False):
            if envs._session.pending is not None:
                observations, *_ = envs.step_wait()
                expected = together(np.array(observations))
        assert together(np.array(envs.step([0, 0], env_ids=[2, 0]).observations)) > expected > 1
        for _ in moments(lambda: envs.reset(env_ids=[1, 2]), instructions=False):
            if envs._session.pending is not None:
                observations, infos = envs.reset_wait()
                assert together(np.array(observations)) == 0
                assert len(infos) == 2
        with pytest.raises(shoal.NothingPending, match="step_wait"):
            envs.step_wait()


def finish_step(envs: ParallelEnv) -> int | None:
    """Wait for a step that was interrupted, if it was begun; returns how many steps there have been, if it tells."""
    if envs._session.pending is None:
        return None
    observation, *_ = envs.step_wait(timeout=20)
    return together(observation)


def together(observation: Any) -> int:
    counts = set(observation[:, 0].tolist())
    assert len(counts) == 1, f"some have taken a step that others have not: {counts}"
    return int(counts.pop())


def check_steps(envs: ParallelEnv, *, instructions: bool, every: int = 1, **how: Any) -> None:
    so_far = num_moments = num_resumed = num_returned = 0
    for _ in moments(lambda: envs.step([0] * 4), instructions=instructions, every=every, **how):
        num_moments += 1
        resumed = finish_step(envs)
        if resumed is not None:
            num_resumed += 1
            assert resumed == so_far + 1, "the results are those of the interrupted step"
            so_far = resumed
        observation, *_ = envs.step([0] * 4)
        count = together(observation)
        # It was not begun, or it was done and its results were on their way to the caller.
        assert count == so_far + 1 or (resumed is None and count == so_far + 2)
        num_returned += count == so_far + 2
        so_far = count
    # Between the last thing that Shoal does and the caller is hardly anything.
    assert num_returned <= (12 if instructions else 2)
    assert num_moments > 30
    assert num_resumed > num_moments / 4
    assert envs.stats.restarts == 0


@pytest.mark.parametrize("on_fault", ["restore", "raise"])
def test_a_step_that_is_interrupted_at_any_line(process_backend: str, on_fault: str) -> None:
    with made(process_backend, on_fault=on_fault) as envs:
        check_steps(envs, instructions=False, every=1 if on_fault == "restore" else 3)


@pytest.mark.parametrize("name", ["shm", "pipes", "threads"])
def test_a_step_in_which_another_handler_raises_at_any_line(name: str, raised: type[BaseException]) -> None:
    with ParallelEnv([counting(100_000)] * 4, backend=name, num_workers=2, on_fault="restore") as envs:
        envs.reset()
        check_steps(envs, instructions=False, every=2, number=signal.SIGUSR1, raised=raised)


def test_an_alarm_while_a_step_waits_leaves_it_pending(process_backend: str, raised: type[BaseException]) -> None:
    with ParallelEnv([SlowEnv] * 4, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset()
        alarm = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        alarm.start()
        with pytest.raises(raised):
            envs.step([2] * 4)
        alarm.join()
        with pytest.raises(shoal.AlreadyPending, match="step_wait"):
            envs.reset()
        assert together(envs.step_wait(timeout=20)[0]) == 1
        assert together(envs.step([0] * 4)[0]) == 2


def test_a_receiver_in_which_a_handler_raises_loses_nothing(process_backend: str, raised: type[BaseException]) -> None:
    def receive_all() -> None:
        while envs.num_under_way:
            envs.recv(timeout=20)

    with made(process_backend) as envs:
        recording, num_sent = envs.record_arrivals(), 0
        for _ in moments(receive_all, instructions=False, every=3, number=signal.SIGUSR1, raised=raised):
            receive_all()
            envs.send([0] * 4)
            num_sent += 1
        received = [row for batch in recording for row in batch]
        assert [received.count(row) for row in range(4)] == [num_sent] * 4, "each was handed over once for each step"


@pytest.mark.slow
def test_a_step_that_is_interrupted_at_any_instruction(process_backend: str) -> None:
    with made(process_backend) as envs:
        check_steps(envs, instructions=True, every=7)


def test_a_reset_that_is_interrupted_at_any_line(process_backend: str) -> None:
    with made(process_backend) as envs:
        for _ in moments(lambda: envs.reset(seed=3), instructions=False, every=5):
            if envs._session.pending is not None:
                observation, _ = envs.reset_wait(timeout=20)
                assert observation[:, 0].tolist() == [0] * 4
            observation, *_ = envs.step([0] * 4)
            together(observation)


def test_a_call_that_is_interrupted_at_any_line(process_backend: str) -> None:
    with made(process_backend) as envs:
        for _ in moments(lambda: envs.call("describe"), instructions=False):
            if envs._session.pending is not None:
                assert envs.call_wait(timeout=20) == ("plain:0",) * 4
        assert envs.call("describe") == ("plain:0",) * 4


def test_sending_and_receiving_that_is_interrupted_at_any_line(process_backend: str) -> None:
    def send_and_receive() -> None:
        envs.send([0] * 4)
        receive_all()

    def receive_all() -> None:
        while envs.num_under_way:
            envs.recv(timeout=20)

    with made(process_backend) as envs:
        before = envs.get_attr("count")
        for _ in moments(send_and_receive, instructions=False, every=5):
            receive_all()
            after = envs.get_attr("count")
            assert after in (before, tuple(count + 1 for count in before)), "all have taken one step, or none"
            before = after


@pytest.mark.parametrize("on_fault", ["restore", "raise"])
def test_halves_that_are_interrupted_at_any_line(process_backend: str, on_fault: str) -> None:
    def step_both() -> None:
        for part in parts:
            part.step_async(np.array([0, 0]))
        for part in parts:
            part.step_wait()

    with made(process_backend, on_fault=on_fault) as envs:
        parts = envs.split(2)
        before = envs.get_attr("count")
        for _ in moments(step_both, instructions=False, every=1 if on_fault == "restore" else 5):
            for part in parts:
                with suppress(shoal.NothingPending):
                    together(part.step_wait()[0])
            after = envs.get_attr("count")
            for row, (count, later) in enumerate(zip(before, after, strict=True)):
                assert later in (count, count + 1), "a half has taken a step, or none"
                assert later == after[row % 2], "a half stays together"
            before = after
        assert envs.stats.restarts == 0


def test_closing_that_is_interrupted_at_any_line(process_backend: str) -> None:
    made = [ParallelEnv([counting()] * 2, backend=process_backend, num_workers=1, start_method="fork")]
    num_moments = 0
    for _ in moments(lambda: made[-1].close(), instructions=False, every=7):
        num_moments += 1
        made[-1].close()
        assert made[-1].closed
        made.append(ParallelEnv([counting()] * 2, backend=process_backend, num_workers=1, start_method="fork"))
    assert made[-1].closed
    assert num_moments > 20


def test_the_handler_of_the_program_is_called_and_put_back(process_backend: str) -> None:
    called = []

    def handle(number: int, frame: FrameType | None) -> None:
        called.append(number)

    before = signal.signal(signal.SIGINT, handle)
    try:
        with made(process_backend) as envs:
            for moment in range(5, 65, 20):
                with InterruptAt(moment, instructions=False):
                    envs.step([0] * 4)
                assert signal.getsignal(signal.SIGINT) is handle
        assert called == [signal.SIGINT] * 3
    finally:
        signal.signal(signal.SIGINT, before)


def test_interrupts_are_noted_and_raised_when_they_may_be() -> None:
    with pytest.raises(KeyboardInterrupt):
        with postponed:
            signal.raise_signal(signal.SIGINT)
            with postponed:
                signal.raise_signal(signal.SIGINT)
            done = 1
    assert done == 1
    with pytest.raises(KeyboardInterrupt):
        with postponed:
            signal.raise_signal(signal.SIGINT)
            with allowed:
                done = 2
    assert done == 1
    with pytest.raises(KeyboardInterrupt):
        with postponed:
            with allowed:
                signal.raise_signal(signal.SIGINT)
                done = 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_that_is_not_heeded_for_long_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.vector.interrupts.PATIENCE_SECONDS", -1.0)
    with pytest.raises(KeyboardInterrupt):
        with postponed:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it should have been raised")


def test_who_ignores_interrupts_goes_on_ignoring_them(process_backend: str) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with made(process_backend) as envs:
            with InterruptAt(30, instructions=False) as interrupt:
                envs.step([0] * 4)
            assert interrupt.has_come
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_upkeep_that_is_interrupted_before_a_step_leaves_nothing_to_wait_for(
    process_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "MAINTENANCE", 4)
    with made(process_backend) as envs:

        def interrupt() -> None:  # as a second Ctrl-C does, while something hangs
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(envs._pool.backend.upkeep, "see_to_everything", interrupt)  # type: ignore[attr-defined]
        with pytest.raises(KeyboardInterrupt):
            for _ in range(40):
                envs.step([0] * 4)
        with pytest.raises(shoal.NothingPending):
            envs.step_wait()
        with pytest.raises(shoal.WorkerError, match="KeyboardInterrupt interrupted the sending of a command"):
            envs.reset()
