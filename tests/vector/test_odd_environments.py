"""Environments that do odd things to their process: the results are the same, close() is in time, nothing is left."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from shoal import ParallelEnv
from tests.comparing import difference, rollout
from tests.envs import CountingEnv, counting
from tests.rough import SLEEP, SlowEverywhereEnv
from tests.scripts import run_script

Deed = Callable[[], object]
DEEDS: dict[str, Deed] = {}


def deed(function: Deed) -> Deed:
    DEEDS[function.__name__] = function
    return function


@deed
def print_ten_megabytes() -> None:
    for stream in (sys.stdout, sys.stderr):
        for _ in range(100):
            stream.write("x" * 49_999 + "\n")


@deed
def read_stdin() -> None:
    assert sys.stdin.read() == ""
    assert os.read(0, 10) == b""


@deed
def close_the_standard_descriptors() -> None:
    for descriptor in (0, 1, 2):
        os.close(descriptor)


@deed
def close_the_standard_streams() -> None:
    sys.stdout.close()
    sys.stderr.close()
    sys.stdin.close()


@deed
def take_the_standard_streams_away() -> None:
    sys.stdin = sys.stdout = sys.stderr = None


@deed
def lose_the_working_directory() -> None:
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    shutil.rmtree(folder)


@deed
def change_the_umask() -> None:
    os.umask(0o777)


@deed
def handle_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, lambda *_: None)


@deed
def block_all_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


@deed
def be_alarmed_a_thousand_times_a_second() -> None:
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)


@deed
def ask_for_a_session() -> None:
    with contextlib.suppress(PermissionError):
        os.setsid()


@deed
def start_a_program() -> None:
    subprocess.Popen(SLEEP)


@deed
def fork_a_child_that_stays() -> None:
    if not os.fork():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
        os._exit(0)


@deed
def fork_a_child_that_nobody_waits_for() -> None:
    if not os.fork():
        os._exit(3)


@deed
def leave_threads_running() -> None:
    for is_daemon in (False, True):
        threading.Thread(target=time.sleep, args=(600,), daemon=is_daemon).start()


@deed
def clear_the_variables() -> None:
    os.environ.clear()


@deed
def allow_no_more_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))


class OddEnv(CountingEnv):
    """Does something odd when it is made, or in its second step."""

    def __init__(self, name: str, when: str) -> None:
        super().__init__()
        self._name, self._when = name, when
        if when == "made":
            DEEDS[name]()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._when == "stepped" and self.resets == 1 and self.count == 1:
            DEEDS[self._name]()
        return super().step(action)


def check(name: str, when: str, method: str, backend: str = "pipes") -> None:
    with ParallelEnv([counting()] * 2, backend="serial") as plain:
        expected = rollout(plain, 12)
    env_fns: list[Any] = [lambda: OddEnv(name, when), counting()]
    with ParallelEnv(env_fns, backend=backend, num_workers=2, start_method=method) as envs:
        assert not difference(rollout(envs, 12), expected)
        assert envs.stats.restarts == 0
        started = [one for pid in envs.worker_pids for one in psutil.Process(pid).children(recursive=True)]
        begin = time.monotonic()
    assert time.monotonic() - begin < 4.5, "it is closed in time, and not by force"
    assert not psutil.wait_procs(started, timeout=5)[1]


@pytest.mark.parametrize("when", ["made", "stepped"])
@pytest.mark.parametrize("name", DEEDS)
def test_an_odd_deed_changes_nothing(
    process_backend: str, name: str, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    check(name, when, "fork", process_backend)
    assert "did not end within" not in caplog.text


@pytest.mark.parametrize(
    "name", ["handle_signals", "block_all_signals", "ask_for_a_session", "lose_the_working_directory"]
)
def test_one_that_wants_no_signals_and_hangs_is_ended(process_backend: str, name: str, tmp_path: Path) -> None:
    marker = tmp_path / "hung"

    class Stuck(OddEnv):
        def step(self, action: Any) -> Any:
            if self.count == 2 and not marker.exists():
                marker.touch()
                while True:
                    time.sleep(600)
            return super().step(action)

    fns: list[Any] = [lambda: Stuck(name, "made"), counting()]
    begin = time.monotonic()
    with ParallelEnv(fns, backend=process_backend, num_workers=2, start_method="fork", step_timeout=0.5) as envs:
        found = rollout(envs, 12)
        assert envs.stats.restarts == 1
    assert time.monotonic() - begin < 10
    with ParallelEnv([counting()] * 2, backend="serial") as plain:
        assert not difference(found, rollout(plain, 12))


@pytest.mark.parametrize(
    "name", ["close_the_standard_descriptors", "take_the_standard_streams_away", "leave_threads_running"]
)
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_an_odd_deed_changes_nothing_however_workers_are_started(name: str, method: str) -> None:
    check(name, "stepped", method)


def test_what_the_caller_reads_is_not_taken_from_it() -> None:
    done = run_script(
        """
        import sys, shoal
        from tests.vector.test_odd_environments import OddEnv
        with shoal.ParallelEnv([lambda: OddEnv("read_stdin", "stepped")] * 2, backend="shm", num_workers=2) as envs:
            envs.reset()
            for _ in range(3):
                envs.step([0, 0])
        print(sys.stdin.read())
        """,
        input="for the caller",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "for the caller\n", "")


def test_a_program_without_standard_streams_can_have_workers(tmp_path: Path) -> None:
    done = run_script(f"""
        import os
        for descriptor in (0, 1, 2):
            os.close(descriptor)
        import shoal
        from tests.envs import CountingEnv
        for method in ("fork", "forkserver", "spawn"):
            with shoal.ParallelEnv([CountingEnv] * 2, backend="shm", num_workers=2, start_method=method) as envs:
                envs.reset()
                observation, *_ = envs.step([0, 0])
                assert observation[:, 0].tolist() == [1, 1]
        open({str(tmp_path / "done")!r}, "x")
    """)
    assert done.returncode == 0
    assert (tmp_path / "done").exists()


def test_an_environment_that_hangs_in_close_is_ended_in_time(
    process_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    envs = ParallelEnv([SlowEverywhereEnv] * 4, backend=process_backend, num_workers=2, start_method="fork")
    begin = time.monotonic()
    envs.close(timeout=0.5)
    assert time.monotonic() - begin < 3.0
    assert caplog.text.count("did not end within 0.5 s of close()") == 2


def test_a_program_ends_in_time_though_an_environment_hangs_in_close() -> None:
    begin = time.monotonic()
    done = run_script("""
        import shoal
        from tests.rough import SlowEverywhereEnv
        envs = shoal.ParallelEnv([SlowEverywhereEnv] * 2, backend="shm", num_workers=2)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - begin < 20
