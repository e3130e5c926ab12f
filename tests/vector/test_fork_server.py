"""The process from which workers are forked is stopped, hangs or dies, at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import psutil
import pytest

import shoal
from shoal import ParallelEnv
from shoal.vector.backends import launch
from tests.comparing import difference, rollout
from tests.envs import WalkingEnv
from tests.marked import MarkedProgram
from tests.scripts import ROOT

SOON = 0.5  # seconds after which a process that has been stopped is given up


class Doctored:
    """Does something to the first fork servers, and has no patience with these."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, do: Callable[[int], None], count: int) -> None:
        self.pids: list[int] = []
        start, ask = launch._start_python, launch._Nursery.launch

        def started(*arguments: Any) -> subprocess.Popen[bytes]:
            popen = start(*arguments)
            if len(self.pids) < count:
                self.pids.append(popen.pid)
                do(popen.pid)
            return popen

        def asked(nursery: Any, post: Any, seconds: float) -> Any:
            return ask(nursery, post, SOON if nursery.pid in self.pids else seconds)

        monkeypatch.setattr(launch, "_start_python", started)
        monkeypatch.setattr(launch._Nursery, "launch", asked)


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def make(backend: str, **keywords: Any) -> ParallelEnv:
    return ParallelEnv([WalkingEnv] * 4, backend=backend, num_workers=2, start_method="forkserver", **keywords)


def check_rollout(envs: ParallelEnv) -> None:
    with ParallelEnv([WalkingEnv] * 4, backend="serial") as plain:
        assert not difference(rollout(envs, 12), rollout(plain, 12))


def server_of(envs: ParallelEnv) -> int:
    return psutil.Process(envs.worker_pids[0]).ppid()


@pytest.mark.parametrize("on_fault", ["restore", "raise"])
def test_one_that_is_stopped_while_environments_are_made_is_replaced(
    process_backend: str, on_fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    doctored = Doctored(monkeypatch, stop, 1)
    with make(process_backend, on_fault=on_fault) as envs:
        check_rollout(envs)
        assert server_of(envs) not in doctored.pids
        assert not psutil.pid_exists(doctored.pids[0])
    assert (
        f"the fork server (pid {doctored.pids[0]}), which starts workers, did not answer within 0.5 s and was killed. "
        "It is replaced. Workers that it has started go on, but how they will end cannot be known."
    ) in caplog.text


@pytest.mark.parametrize("on_fault", ["restore", "raise"])
def test_those_that_die_while_environments_are_made_are_replaced(
    process_backend: str, on_fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    doctored = Doctored(monkeypatch, kill, 3)
    with make(process_backend, on_fault=on_fault) as envs:
        check_rollout(envs)
    for pid in doctored.pids:
        assert f"the fork server (pid {pid}), which starts workers, ended before it could start one." in caplog.text


def test_one_that_never_answers_is_an_error(process_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    doctored = Doctored(monkeypatch, stop, 100)
    with pytest.raises(shoal.CannotStart) as caught:
        make(process_backend)
    assert str(caught.value) == (
        "worker 0 of 2 could not be started: the fork server, which starts workers, did not answer within 0.5 s and was "
        'killed. It was tried 3 times. start_method="spawn" does without it.'
    )
    assert len(doctored.pids) == 3


def test_one_that_always_dies_is_an_error(process_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    doctored = Doctored(monkeypatch, kill, 100)
    with pytest.raises(shoal.CannotStart) as caught:
        make(process_backend)
    assert str(caught.value) == (
        "worker 0 of 2 could not be started: the fork server, which starts workers, ended before it could start one (exit code "
        '-9); what it printed says why. It was tried 9 times. start_method="spawn" does without it.'
    )
    assert len(doctored.pids) == 9


@pytest.mark.parametrize(
    "timeouts", [{}, {"construct": 30, "reset": 30, "call": 30}], ids=["no-deadlines", "deadlines"]
)
def test_a_worker_is_replaced_although_the_fork_server_is_stopped(
    process_backend: str, timeouts: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(launch, "REPORT_SECONDS", SOON)
    with make(process_backend, timeouts=timeouts, step_timeout=30 if timeouts else None) as envs:
        check_rollout(envs)
        stopped, (dead, other) = server_of(envs), envs.worker_pids
        stop(stopped)
        kill(dead)
        check_rollout(envs)
        assert envs.worker_pids[1] == other, "it goes on"
        assert server_of(envs) != stopped
        assert envs.stats.restarts == 1
        kill(other)  # of which there is no fork server any more
        check_rollout(envs)
        assert envs.stats.restarts == 2
    assert "did not say within 0.5 s how a worker has ended and was killed. It is replaced." in caplog.text
    assert f"worker 0 (pid {dead}) ended, and nobody knows how, while in " in caplog.text


def test_one_that_hangs_only_when_it_is_asked_is_replaced(
    process_backend: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(launch, "ANSWER_SECONDS", SOON)
    ask = launch._Nursery.launch

    def asked(nursery: Any, post: Any, seconds: float) -> Any:
        if seconds == SOON and nursery.pid == stopped:
            stop(stopped)
        return ask(nursery, post, seconds)

    stopped = 0
    monkeypatch.setattr(launch._Nursery, "launch", asked)
    monkeypatch.setattr("shoal.vector.supervisor.MAINTENANCE", 10**9)  # no spare worker
    with make(process_backend) as envs:
        check_rollout(envs)
        stopped = server_of(envs)
        kill(envs.worker_pids[0])
        check_rollout(envs)
        assert envs.stats.restarts == 1
    assert "did not answer within 0.5 s and was killed" in caplog.text


def test_closing_while_the_fork_server_is_stopped(process_backend: str) -> None:
    envs = make(process_backend)
    envs.reset()
    stopped = server_of(envs)
    stop(stopped)
    envs.close()
    assert not psutil.pid_exists(stopped)


@pytest.mark.parametrize("name", ["pipes", "shm"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_worker_of_which_the_caller_was_never_told_ends(name: str, number: signal.Signals, tmp_path: Path) -> None:
    """The fork server has forked it, and dies or is stopped before it can say so."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, pathlib, sys\n"
        f"really, marker = os.fork, pathlib.Path({str(tmp_path / 'struck')!r})\n"
        "def fork():\n"
        "    pid = really()\n"
        "    if pid and not marker.exists():\n"
        "        marker.touch()\n"
        f"        os.kill(os.getpid(), {int(number)})\n"
        "    return pid\n"
        "if 'nursery' in str(sys.orig_argv): os.fork = fork\n"
    )
    with MarkedProgram(
        f"""
        import os, time, shoal
        from shoal.vector.backends import launch
        from tests.envs import WalkingEnv
        ask, asked = launch._Nursery.launch, []
        def launched(nursery, post, seconds):
            asked.append(nursery)
            return ask(nursery, post, 3.0 if nursery is asked[0] else seconds)
        launch._Nursery.launch = launched
        envs = shoal.ParallelEnv([WalkingEnv] * 4, backend="{name}", num_workers=2, start_method="forkserver")
        envs.reset(seed=1)
        envs.step([1] * 4)
        print("made", flush=True)
        time.sleep(600)
        """,
        PYTHONPATH=f"{tmp_path}:{ROOT / 'src'}:{ROOT}",
    ) as program:
        program.expect("made")
        assert (tmp_path / "struck").exists()
        deadline = time.monotonic() + 30
        while len(program.others()) > 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(program.others()) == 3, f"two workers and a fork server: {program.others()}"


def test_modules_that_factories_name_are_imported_once_for_all_workers() -> None:
    class Naming:
        preload = ("colorsys", "no_such_module_anywhere")

        def __call__(self) -> Any:
            return gymnasium.make("CartPole-v1")

    with shoal.EnvList([Naming()] * 2, backend="shm", num_workers=2) as envs:
        assert envs.call(lambda env: "colorsys" in sys.modules) == (True, True)
