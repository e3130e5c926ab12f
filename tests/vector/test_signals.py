"""Signals to the caller: Ctrl-C, SIGTERM, a storm of alarms, being stopped; and what a caller may have done to signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from shoal import ParallelEnv, WorkerDied
from tests.comparing import difference, rollout
from tests.envs import DyingEnv, HangingEnv, SlowEnv, counting, registered
from tests.marked import MarkedProgram
from tests.rough import SleepingEnv

METHODS = ("fork", "forkserver", "spawn")

INTERRUPTED = {
    "construct": """
        print("ready", flush=True)
        shoal.ParallelEnv([rough.SlowStartEnv] * 2, backend="shm", num_workers=2, start_method={method!r})
    """,
    "reset": """
        envs = shoal.ParallelEnv([rough.SlowEverywhereEnv] * 2, backend="shm", num_workers=2, start_method={method!r})
        print("ready", flush=True)
        envs.reset()
    """,
    "step": """
        envs = shoal.ParallelEnv([HangingEnv] * 2, backend="shm", num_workers=2, start_method={method!r})
        envs.reset()
        print("ready", flush=True)
        envs.step([0, 4])
    """,
    "close": """
        envs = shoal.ParallelEnv([rough.SlowEverywhereEnv] * 2, backend="shm", num_workers=2, start_method={method!r})
        print("ready", flush=True)
        envs.close()
    """,
}
HEAD = """
        import os, signal, sys, threading, time
        import shoal
        from tests import rough
        from tests.envs import HangingEnv
"""


@pytest.mark.parametrize(
    ("moment", "method"), [("construct", "fork"), ("reset", "forkserver"), ("step", "spawn"), ("close", "fork"),
                           ("construct", "forkserver"), ("close", "forkserver")],
)  # fmt: skip
def test_ctrl_c_gives_one_traceback_and_leaves_nothing(moment: str, method: str) -> None:
    with MarkedProgram(HEAD + INTERRUPTED[moment].format(method=method)) as program:
        program.expect("ready")
        time.sleep(0.4)  # until it waits
        program.press_ctrl_c()
        code, _, errors = program.end()
        assert (code, errors.count("Traceback")) == (-signal.SIGINT, 1), errors
        assert errors.rstrip().endswith("KeyboardInterrupt")
        program.wait_until_alone(3.0)


def test_after_ctrl_c_in_close_nothing_is_left_and_the_program_goes_on() -> None:
    with MarkedProgram(HEAD + """
        envs = shoal.ParallelEnv([rough.SlowEverywhereEnv] * 2, backend="shm", num_workers=2)
        print("ready", flush=True)
        try:
            envs.close()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        sys.stdin.readline()
        envs.close()
        print(envs.closed, flush=True)
        time.sleep(600)
    """) as program:  # fmt: skip
        program.expect("ready")
        time.sleep(0.3)
        program.press_ctrl_c()
        program.expect("interrupted")
        program.expect("True")
        program.wait_until_alone(3.0)


@pytest.mark.slow
@pytest.mark.parametrize("moment", INTERRUPTED)
def test_ctrl_c_three_times_ends_at_once(moment: str) -> None:
    with MarkedProgram(HEAD + INTERRUPTED[moment].format(method="forkserver")) as program:
        program.expect("ready")
        time.sleep(0.4)
        begin = time.monotonic()
        for _ in range(3):
            program.press_ctrl_c()
            time.sleep(0.05)
        program.end()
        program.wait_until_alone(3.0)
        took = time.monotonic() - begin
        print(f"ended after {took:.3f} s")
        assert took < 5.0, "two seconds on a machine that has nothing else to do"


def test_workers_end_with_a_caller_that_is_terminated() -> None:
    with MarkedProgram(HEAD + INTERRUPTED["step"].format(method="forkserver")) as program:
        program.expect("ready")
        assert len(program.others()) == 3
        program.process.terminate()
        print(f"gone after {program.wait_until_alone(3.0):.3f} s")
        assert program.end()[0] == -signal.SIGTERM


@contextmanager
def alarms(per_second: int) -> Iterator[list[int]]:
    """SIGALRM again and again, with a handler that only counts."""
    count = [0]

    def handle(*_: object) -> None:
        count[0] += 1

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 1 / per_second, 1 / per_second)
    try:
        yield count
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("method", METHODS)
def test_a_storm_of_alarms_changes_nothing(process_backend: str, method: str) -> None:
    env_fns = [registered("CartPole-v1")] * 4
    with ParallelEnv(env_fns, backend="serial") as envs:
        expected = rollout(envs, 200)
    with alarms(1000) as count:
        with ParallelEnv(env_fns, backend=process_backend, num_workers=2, start_method=method) as envs:
            assert not difference(rollout(envs, 200), expected)
    assert count[0] > 20


@pytest.mark.slow
def test_a_caller_that_was_stopped_blames_nobody(process_backend: str) -> None:
    # The step takes half a second, of one that it may take; and the caller is away for three.
    with MarkedProgram(f"""
        import shoal
        from tests.envs import SlowEnv
        envs = shoal.ParallelEnv([SlowEnv] * 2, backend={process_backend!r}, num_workers=2, step_timeout=1.0)
        envs.reset()
        print("ready", flush=True)
        _, reward, *_ = envs.step([2, 2])
        print(reward.tolist(), envs.stats.restarts, flush=True)
        envs.close()
    """) as program:
        program.expect("ready")
        time.sleep(0.1)
        program.process.send_signal(signal.SIGSTOP)
        time.sleep(3.0)
        program.process.send_signal(signal.SIGCONT)
        code, output, errors = program.end()
        assert (code, output, errors) == (0, "[2.0, 2.0] 0\n", "")


@pytest.mark.slow
def test_a_slow_but_legal_step_on_a_busy_machine_is_nobodys_fault(process_backend: str) -> None:
    hogs = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(4)]
    try:
        with ParallelEnv([SleepingEnv] * 2, backend=process_backend, num_workers=2, step_timeout=2.5) as envs:
            envs.reset()
            _, reward, *_ = envs.step([2, 0])  # two seconds, which is 0.8 of what it may take
            assert reward.tolist() == [2, 0]
            assert envs.stats.restarts == 0
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


@pytest.mark.parametrize("method", METHODS)
def test_signals_that_the_caller_blocks_are_not_blocked_in_workers(method: str) -> None:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.valid_signals()) - {signal.SIGINT})
    try:
        with ParallelEnv(
            [HangingEnv] * 2, backend="shm", num_workers=2, start_method=method, step_timeout=1.0, on_fault="raise"
        ) as envs:
            envs.reset()
            assert envs.call(_blocked_signals) == (set(), set())
            with pytest.raises(TimeoutError, match=r"(?s)it was here:.*line \d+ in step"):
                envs.step([0, 4])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _blocked_signals(env: object) -> set[int]:
    return {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])}


@pytest.mark.parametrize("method", METHODS)
def test_a_caller_that_waits_for_all_children_itself_is_told_what_can_be_known(method: str) -> None:
    def reap(*_: object) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    before = signal.signal(signal.SIGCHLD, reap)
    try:
        env_fns = [counting(100), DyingEnv]
        with ParallelEnv(env_fns, backend="shm", num_workers=2, start_method=method, on_fault="raise") as envs:
            envs.reset()
            with pytest.raises(WorkerDied, match="worker 1 .* (ended, and nobody knows how|was killed by SIGKILL)"):
                envs.step([0, 4])
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_workers_are_used_from_another_thread_while_ctrl_c_comes(process_backend: str) -> None:
    with ParallelEnv([SlowEnv] * 2, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset()
        rewards: list[float] = []
        thread = threading.Thread(target=lambda: rewards.extend(envs.step([1, 2])[1]))
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(0.1)
            signal.raise_signal(signal.SIGINT)
        thread.join()
        assert rewards == [1, 2]


def test_a_forked_worker_never_runs_the_callers_code_whatever_signals_it_gets() -> None:
    with MarkedProgram("""
        import os, signal, sys
        import shoal
        from tests.envs import counting

        caller = os.getpid()

        def interrupt(frame, event, argument):
            # From the first line on that a forked worker runs.
            if os.getpid() != caller and frame.f_globals["__name__"].endswith((".launch", ".worker")):
                signal.raise_signal(signal.SIGINT)
            return interrupt

        def note(number, frame):
            os.write(1, f"handled in {'the caller' if os.getpid() == caller else 'a worker'}\\n".encode())

        signal.signal(signal.SIGTERM, note)
        sys.settrace(interrupt)
        try:
            envs = shoal.ParallelEnv([counting()] * 2, backend="shm", num_workers=2, start_method="fork")
        finally:
            os.write(1, b"made\\n" if os.getpid() == caller else b"gone astray\\n")
        sys.settrace(None)
        envs.reset(seed=0)
        os.kill(envs.worker_pids[0], signal.SIGTERM)
        while not envs.stats.restarts:
            envs.step([0, 0])
        signal.raise_signal(signal.SIGTERM)
        envs.close()
    """) as program:
        code, output, errors = program.end()
    assert (code, output) == (0, "made\nhandled in the caller\n"), errors


class Alarmed(Exception):
    """What the caller's handler raises."""


def raise_alarmed(*_: object) -> None:
    raise Alarmed


@pytest.mark.parametrize("moment", ["before", "while forking"])
def test_a_handler_that_raises_while_a_worker_is_forked_leaves_no_signal_blocked_and_no_worker(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork, block = os.fork, signal.pthread_sigmask

    def interrupted_fork() -> int:
        signal.raise_signal(signal.SIGUSR1)  # to this thread: another one would take it at once
        return fork()

    def interrupted_block(how: int, signals: Any) -> Any:
        before = block(how, signals)
        if how == signal.SIG_BLOCK and signals:
            raise Alarmed  # as a handler does that was due
        return before

    handler, children = signal.signal(signal.SIGUSR1, raise_alarmed), psutil.Process().children()
    try:
        with monkeypatch.context() as patched:
            if moment == "before":
                patched.setattr(signal, "pthread_sigmask", interrupted_block)
            else:
                patched.setattr(os, "fork", interrupted_fork)
            with pytest.raises(Alarmed):
                ParallelEnv([counting()] * 2, backend="shm", num_workers=2, start_method="fork")
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
        assert psutil.Process().children() == children
    finally:
        signal.signal(signal.SIGUSR1, handler)


def test_alarms_that_environments_set_themselves_reach_the_handler_of_the_program() -> None:
    with MarkedProgram("""
        import signal
        import shoal
        from tests.envs import CountingEnv

        class HastyEnv(CountingEnv):
            def step(self, action):
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                try:
                    signal.pause()
                except TimeoutError:
                    self.alarms = getattr(self, "alarms", 0) + 1
                return super().step(action)

        def too_long(*_):
            raise TimeoutError

        signal.signal(signal.SIGALRM, too_long)
        with shoal.ParallelEnv([HastyEnv] * 2, backend="shm", num_workers=2, start_method="fork") as envs:
            envs.reset(seed=0)
            envs.step([0, 0])
            print(envs.get_attr("alarms"))
    """) as program:
        code, output, errors = program.end()
    assert (code, output) == (0, "(1, 1)\n"), errors
