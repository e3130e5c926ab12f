"""What the system refuses, and what it takes away: processes, memory, the process that starts workers."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import shoal
from shoal import CannotStart, ConfigurationError, EnvError, ParallelEnv, WorkerDied
from shoal.vector.backends import crew, reaping
from shoal.vector.backends.limits import free_memory, hurry, let_others_go_first, why_no_process
from shoal.vector.backends.shared_buffer import SharedBuffer
from tests.envs import CountingEnv, DyingEnv, counting
from tests.marked import MarkedProgram
from tests.scripts import ROOT


def failing_after(successes: int, really: Callable[..., Any], number: int) -> Callable[..., Any]:
    """The same function, which fails from some time on."""
    calls = [0]

    def call(*args: Any, **keywords: Any) -> Any:
        calls[0] += 1
        if calls[0] > successes:
            raise OSError(number, os.strerror(number))
        return really(*args, **keywords)

    return call


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
@pytest.mark.parametrize(
    ("method", "where", "successes", "worker"),
    [("fork", (os, "fork"), 2, 2), ("spawn", (subprocess, "Popen"), 1, 1), ("forkserver", (subprocess, "Popen"), 0, 0)],
)
def test_a_process_that_the_system_refuses_is_said_with_the_limits(
    method: str, where: tuple[Any, str], successes: int, worker: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*where, failing_after(successes, getattr(*where), number))
    with pytest.raises(CannotStart) as caught:
        ParallelEnv([counting()] * 4, backend="shm", num_workers=4, start_method=method)
    said = str(caught.value)
    assert said.startswith(f"worker {worker} of 4 could not be started: the system refuses another process: ")
    assert os.strerror(number) in said
    assert "the system may have " in said
    assert "What to do: use fewer workers (num_workers=), end other programs, or raise the limit (ulimit -u" in said
    assert not psutil.Process().children(recursive=True), "those that had started were stopped"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize(("is_there", "why"), [(True, "Permission denied"), (False, "No such file or directory")])
def test_an_interpreter_that_cannot_be_executed_is_said(
    process_backend: str, method: str, is_there: bool, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "python"
    if is_there:
        path.write_text("")
    monkeypatch.setattr("sys.executable", str(path))
    with pytest.raises(CannotStart) as caught:
        ParallelEnv([counting()] * 2, backend=process_backend, num_workers=2, start_method=method)
    assert str(caught.value) == (
        f"worker 0 of 2 could not be started: the Python interpreter cannot be executed: {why}: {str(path)!r} "
        "(sys.executable).\n  What to do: check that this file is there, that this user may execute it (ls -l), and that its "
        'file system is not mounted with noexec. start_method="fork" does without it.'
    )


def test_an_environment_that_asks_for_too_much_memory_raises(process_backend: str) -> None:
    class Greedy(CountingEnv):
        def step(self, action: Any) -> Any:
            if action == 4:
                limit = psutil.Process().memory_info().vms + 2**28
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
                np.ones(2**30, np.uint8)
            return super().step(action)

    with ParallelEnv([counting(9), Greedy], backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset()
        with pytest.raises(EnvError, match="environment 1 .* raised numpy.*MemoryError: Unable to allocate 1.00 GiB"):
            envs.step([0, 4])
        assert envs.stats.restarts == 0
        assert envs.get_attr("count") == (1, 0), "its neighbour is untouched"


def test_memory_that_is_not_there_is_said_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.vector.backends.shared_buffer.free_memory", lambda: 100_000)
    with pytest.raises(ConfigurationError) as caught:
        ParallelEnv([counting()] * 5_000, backend="shm", num_workers=1, start_method="fork")
    found = re.match(
        r"there is no room for the ([\d,]+) bytes of memory that workers share \(100,000 are free\)\. "
        r"Use fewer environments, smaller observations, or more memory\.",
        str(caught.value),
    )
    assert found, str(caught.value)
    assert int(found[1].replace(",", "")) > 100_000
    assert not psutil.Process().children(recursive=True)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOMEM])
@pytest.mark.parametrize("portable", [False, True])
def test_a_full_disk_or_memory_is_an_error_before_anything_is_written(
    number: int, portable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if portable:
        monkeypatch.setenv("SHOAL_PORTABLE", "1")
    buffer = SharedBuffer("test")
    monkeypatch.setattr(os, "posix_fallocate", failing_after(0, os.posix_fallocate, number))
    with pytest.raises(ConfigurationError, match=r"no room for the 4,096 bytes .* are free\)") as caught:
        buffer.allocate(4096)
    assert ("a larger disk for temporary files (TMPDIR)" in str(caught.value)) == portable
    buffer.close()


def test_free_memory_is_that_of_the_container(tmp_path: Path) -> None:
    assert free_memory(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 2000 kB\nMemAvailable: 1000 kB\n")
    assert free_memory(tmp_path) == 1000 * 1024
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert free_memory(tmp_path) == 1000 * 1024
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("5000\n")
    assert free_memory(tmp_path) == 5000


def test_a_nursery_that_cannot_fork_says_so_and_the_started_workers_are_stopped(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import errno, os, sys\n"
        "from tests.vector.test_resources import failing_after\n"
        "if 'nursery' in str(sys.orig_argv): os.fork = failing_after(2, os.fork, errno.EAGAIN)\n"
    )
    with MarkedProgram(
        """
        import shoal
        from tests.envs import CountingEnv
        try:
            shoal.ParallelEnv([CountingEnv] * 4, backend="shm", num_workers=4)
        except shoal.CannotStart as error:
            print(str(error).splitlines()[0], flush=True)
        import time
        time.sleep(600)
        """,
        PYTHONPATH=f"{tmp_path}:{ROOT / 'src'}:{ROOT}",
    ) as program:
        program.expect(
            "worker 2 of 4 could not be started: the system refuses another process: Resource temporarily unavailable."
        )
        program.wait_until_alone(5.0)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, of whom nothing else runs")
def test_a_limit_of_processes_is_said_with_its_numbers() -> None:
    with MarkedProgram("""
        import os, resource, shoal
        from tests.envs import CountingEnv
        shoal.ParallelEnv([CountingEnv], backend="shm", start_method="fork").close()  # imports what is imported late
        os.setgid(54321)
        os.setuid(54321)
        resource.setrlimit(resource.RLIMIT_NPROC, (3, 3))
        try:
            shoal.ParallelEnv([CountingEnv] * 4, backend="shm", num_workers=4, start_method="fork")
        except shoal.CannotStart as error:
            print(error)
    """) as program:
        code, output, errors = program.end()
        assert (code, errors) == (0, "")
        assert output.startswith("worker 2 of 4 could not be started")
        assert "this user may have 3 processes and threads, and has 3" in output


def test_limits_that_are_not_known_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_of_user", "_of_group", "_of_system", "_memory"):
        monkeypatch.setattr(f"shoal.vector.backends.limits.{name}", lambda: "")
    assert "Limits" not in why_no_process(OSError(errno.EAGAIN, "no"))


def nursery_of(envs: ParallelEnv) -> psutil.Process:
    worker = psutil.Process(envs.worker_pids[0])
    nursery = worker.parent()
    assert nursery is not None
    assert nursery.pid != os.getpid()
    return nursery


def test_workers_outlive_their_nursery_and_are_still_replaced(
    process_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ParallelEnv([counting(100)] * 2, backend=process_backend, num_workers=2, start_method="forkserver") as envs:
        envs.reset()
        pids = envs.worker_pids
        nursery_of(envs).kill()
        for _ in range(3):
            envs.step([0, 0])
        assert (envs.worker_pids, envs.stats.restarts) == (pids, 0), "they go on"
        os.kill(pids[0], signal.SIGKILL)
        observation, *_ = envs.step([0, 0])
        assert observation[:, 0].tolist() == [4, 4]
        assert envs.stats.restarts == 1
        assert "the fork server (pid " in caplog.text
        assert nursery_of(envs).is_running(), "there is a new one"
        os.kill(envs.worker_pids[0], signal.SIGKILL)  # this one has a nursery that can tell
        os.kill(envs.worker_pids[1], signal.SIGKILL)  # and this one has not
        envs.step([0, 0])
        assert f"worker 0 (pid {pids[0]}) ended, and nobody knows how" in caplog.text
        assert "worker 0 (pid" in caplog.text
        assert "was killed by SIGKILL" in caplog.text
        assert envs.stats.restarts == 3


def test_the_end_of_a_worker_without_a_nursery_is_said_to_be_unknown() -> None:
    with ParallelEnv([DyingEnv] * 2, backend="shm", num_workers=2, start_method="forkserver", on_fault="raise") as envs:
        envs.reset()
        nursery_of(envs).kill()
        with pytest.raises(WorkerDied, match="worker 1 .* ended, and nobody knows how,") as caught:
            envs.step([0, 4])
        assert "the process that would have been told how it ended is gone too" in str(caught.value)


def test_a_nursery_that_cannot_even_begin_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.vector.backends.launch._BOOT", "raise SystemExit(5)")
    begin = time.monotonic()
    with pytest.raises(CannotStart, match=r"ended before it could start one \(exit code 5\)"):
        ParallelEnv([counting()] * 2, backend="shm", num_workers=2, start_method="forkserver")
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_are_the_first_to_go_when_memory_runs_out(method: str) -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())
    with shoal.make("CartPole-v1", 2, backend="shm", num_workers=2, start_method=method) as envs:
        for pid in envs.worker_pids:
            assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) == min(1000, own + 500)
    assert int(Path("/proc/self/oom_score_adj").read_text()) == own


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_that_are_slow_to_die_are_not_forgotten(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "DYING_SECONDS", 0.0)
    pids: set[int] = set()
    for _ in range(5):
        with ParallelEnv([counting()] * 2, backend="shm", num_workers=2, start_method=method) as envs:
            pids |= set(envs.worker_pids)
            envs.close(terminate=True)
    assert len(pids) == 10
    deadline = time.monotonic() + 60
    while pids & {child.pid for child in psutil.Process().children()} and time.monotonic() < deadline:
        ParallelEnv([counting()], backend="shm", num_workers=1, start_method="fork").close()
    assert not pids & {child.pid for child in psutil.Process().children()}
    monkeypatch.undo()
    ParallelEnv([counting()], backend="shm", num_workers=1, start_method="fork").close()


def test_who_is_not_a_child_of_this_process_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their nursery asks; to read what it says is the matter of the pool whose nursery it is, and of its thread."""
    monkeypatch.setattr(crew, "DYING_SECONDS", 0.0)
    for _ in range(3):
        with ParallelEnv([counting()] * 2, backend="shm", num_workers=2, start_method="forkserver") as envs:
            envs.close(terminate=True)
    assert all(process.is_child for process in reaping._dying)


def test_who_has_let_others_go_first_may_hurry_when_it_ends() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with subprocess.Popen(["sleep", "100"], process_group=0) as sleeper:
        let_others_go_first(sleeper.pid)
        assert os.getpriority(os.PRIO_PROCESS, sleeper.pid) == 19
        hurry(sleeper.pid)
        may_hurry = resource.getrlimit(resource.RLIMIT_NICE)[0] >= 20 - own or os.geteuid() == 0
        assert os.getpriority(os.PRIO_PROCESS, sleeper.pid) == (own if may_hurry else 19)
        sleeper.kill()
    hurry(sleeper.pid)  # which is gone
