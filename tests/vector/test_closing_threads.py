"""close() while a call is under way: from another thread, from the handler of a signal, when the program ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import shoal
from shoal import EnvList, ParallelEnv
from tests.envs import SlowEnv, counting
from tests.marked import MarkedProgram

Act = Callable[[ParallelEnv], object]

CALLS: dict[str, Act] = {
    "step": lambda envs: envs.step([0] * 4),
    "reset": lambda envs: envs.reset(seed=1),
    "call": lambda envs: envs.call("describe"),
    "recv": lambda envs: send_and_receive(envs),
}


def send_and_receive(envs: ParallelEnv) -> None:
    envs.send([0] * 4)
    envs.recv(min_envs=4)


class Caller(threading.Thread):
    """Does something again and again until that raises."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._act = act
        self.has_begun = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while True:
                self._act()
                self.has_begun.set()
        except BaseException as error:
            self.error = error

    def expect_closed(self) -> None:
        self.join(20)
        assert not self.is_alive(), "it still waits"
        assert isinstance(self.error, shoal.Closed), repr(self.error)


@pytest.mark.parametrize("name", CALLS)
def test_a_thread_whose_environments_are_closed_is_told(backend: str, name: str) -> None:
    for delay in (0.0, 0.003, 0.01):
        envs = ParallelEnv([counting(50)] * 4, backend=backend, num_workers=2, start_method="fork")
        envs.reset(seed=5)
        caller = Caller(lambda: CALLS[name](envs))  # noqa: B023 - it ends within this round
        caller.start()
        assert caller.has_begun.wait(20)
        time.sleep(delay)
        envs.close()
        caller.expect_closed()
        assert envs.closed


def test_a_thread_that_waits_for_a_slow_step_is_told(process_backend: str) -> None:
    envs = ParallelEnv([SlowEnv] * 2, backend=process_backend, num_workers=2, start_method="fork")
    envs.reset()
    actions = [[0, 0], [4, 4]]
    caller = Caller(lambda: envs.step(actions[caller.has_begun.is_set()]))
    caller.start()
    assert caller.has_begun.wait(20)
    time.sleep(0.1)
    envs.close(terminate=True)
    caller.expect_closed()
    assert "close() was called, perhaps in another thread" in str(caller.error)


def test_a_thread_that_steps_a_list_is_told(process_backend: str) -> None:
    envs = EnvList([counting(1000)] * 4, backend=process_backend, num_workers=2, start_method="fork")
    envs.reset(seed=5)
    caller = Caller(lambda: envs.step([0] * 4))
    caller.start()
    assert caller.has_begun.wait(20)
    envs.close()
    caller.expect_closed()


def test_a_thread_that_steps_parts_is_told(process_backend: str) -> None:
    envs = ParallelEnv([counting(1000)] * 4, backend=process_backend, num_workers=2, start_method="fork")
    envs.reset(seed=5)
    parts = envs.split(2)
    caller = Caller(lambda: [part.step([0, 0]) for part in parts])
    caller.start()
    assert caller.has_begun.wait(20)
    envs.close()
    caller.expect_closed()


def test_an_environment_at_work_in_another_thread_is_left_to_it(caplog: pytest.LogCaptureFixture) -> None:
    envs = ParallelEnv([SlowEnv], backend="serial")
    envs.reset()
    begun = threading.Event()
    results: list[Any] = []

    def step() -> None:
        begun.set()
        results.append(envs.step([4]))
        results.append(envs.step([4]))

    def run() -> None:
        try:
            step()
        except BaseException as error:
            results.append(error)

    stepping = threading.Thread(target=run)
    stepping.start()
    assert begun.wait(20)
    time.sleep(0.1)
    envs.close(timeout=0)
    stepping.join(20)
    assert [type(one) for one in results] in ([tuple, shoal.Closed], [shoal.Closed])
    assert envs.closed


def test_a_handler_may_close_in_the_middle_of_a_wait(process_backend: str) -> None:
    def close(number: int, frame: FrameType | None) -> None:
        envs.close(terminate=True)

    envs = ParallelEnv([SlowEnv] * 2, backend=process_backend, num_workers=2, start_method="fork")
    envs.reset()
    before = signal.signal(signal.SIGUSR1, close)
    alarm = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    alarm.start()
    try:
        with pytest.warns(UserWarning, match="pending call"), pytest.raises(shoal.Closed):
            envs.step([4, 4])
    finally:
        signal.signal(signal.SIGUSR1, before)
        alarm.join()
    assert envs.closed


@pytest.mark.parametrize("name", ["serial", "threads", "shm", "pipes"])
def test_a_daemon_thread_that_steps_when_the_program_ends_is_told(name: str) -> None:
    with MarkedProgram(f"""
        import atexit, threading
        threads = []
        atexit.register(lambda: [thread.join(20) for thread in threads])  # after all that is registered later
        import shoal
        from tests.envs import counting

        envs = shoal.ParallelEnv([counting(50)] * 4, backend={name!r}, num_workers=2, start_method="fork")
        envs.reset(seed=1)
        begun = threading.Event()

        def step():
            try:
                while True:
                    envs.step([0] * 4)
                    begun.set()
            except BaseException as error:
                print(type(error).__name__, flush=True)

        threads.append(threading.Thread(target=step, daemon=True))
        threads[0].start()
        begun.wait()
    """) as program:
        program.expect("Closed")
        code, output, errors = program.end()
        assert (code, output, errors) == (0, "", "")
        program.wait_until_alone(3.0)
