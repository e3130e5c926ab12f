"""No file descriptor is free at the moment when a worker has to be replaced; later there are some again."""

from __future__ import annotations

import asyncio
import functools
import os
import resource
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

import shoal
from shoal import EnvList, OutOfDescriptors, ParallelEnv
from shoal.vector.supervisor import Supervisor
from tests.comparing import difference
from tests.envs import WalkingEnv
from tests.marked import MarkedProgram
from tests.vector.test_restore import FaultyEnv, asleep

METHODS = ("fork", "forkserver", "spawn")


@contextmanager
def only(free: int) -> Iterator[None]:
    """This process may open so many files and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, len(os.listdir("/proc/self/fd")) + 40), hard))
    try:
        try:
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        for _ in range(free):
            os.close(held.pop())
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def kill(pid: int) -> None:
    """And wait until it is dead."""
    descriptor = os.pidfd_open(pid)
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    select.select([descriptor], [], [])
    os.close(descriptor)


def end_spare(envs: ParallelEnv) -> None:
    """Or there would be a process that need not be started."""
    supervisor = envs._pool.backend
    assert isinstance(supervisor, Supervisor)
    supervisor.end_spare()


def num_open() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_is_replaced_when_there_are_descriptors_again(process_backend: str, method: str) -> None:
    """Whichever descriptor is the one that cannot be had: there are none, one, two and so on."""
    raised = 0
    with (
        ParallelEnv([WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method=method) as envs,
        ParallelEnv([WalkingEnv] * 4, backend="serial") as plain,
    ):
        assert not difference(envs.reset(seed=1), plain.reset(seed=1))
        before = num_open()
        for free in range(9 if method != "spawn" else 4):
            end_spare(envs)
            kill(envs.worker_pids[free % 2])
            with only(free):
                try:
                    result = envs.step([1] * 4)
                except OutOfDescriptors as error:
                    said, raised = str(error), raised + 1
                    with pytest.raises(OutOfDescriptors, match=r"worker [01] \(.*\n.*It cannot be replaced yet"):
                        envs.step_wait()
                    result = None
            if result is None:
                result = envs.step_wait() if free % 3 else envs.step([1] * 4)
            assert not difference(result, plain.step([1] * 4))
            assert envs.stats.restarts == free + 1
        end_spare(envs)
        assert num_open() == before
    assert raised >= 1
    assert "of 2 could not be started: no file descriptor is free: Too many open files." in said
    assert "Limit: this process may have " in said
    assert "What to do: close files and sockets that are not needed, or raise the limit (ulimit -n" in said
    assert "Nothing is lost by waiting: all other environments are intact." in said


def test_after_that_other_actions_are_refused_and_a_reset_gives_the_step_up(process_backend: str) -> None:
    with (
        ParallelEnv([WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork") as envs,
        ParallelEnv([WalkingEnv] * 4, backend="serial") as plain,
    ):
        envs.reset(seed=1)
        plain.reset(seed=1)
        kill(envs.worker_pids[1])
        with only(0):
            with pytest.raises(OutOfDescriptors):
                envs.step([1] * 4)
            with pytest.raises(shoal.AlreadyPending, match="Call `step_wait` first"):
                envs.step([2] * 4)
            with pytest.raises(OutOfDescriptors):
                envs.reset(seed=7)
        assert not difference(envs.reset(seed=7), plain.reset(seed=7))
        assert not difference(envs.step([2] * 4), plain.step([2] * 4))
        assert envs.stats.restarts == 1
        kill(envs.worker_pids[0])
        with only(0), pytest.raises(OutOfDescriptors):
            envs.get_attr("steps")
        assert envs.call_wait() == plain.get_attr("steps")
        kill(envs.worker_pids[0])
        with only(0), pytest.raises(OutOfDescriptors):
            envs.set_attr("position", 0.5)
        envs.set_attr("position", 0.5)
        assert envs.get_attr("position") == (0.5,) * 4


def test_a_reset_may_be_what_cannot_be_finished(process_backend: str) -> None:
    with (
        ParallelEnv([WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork") as envs,
        ParallelEnv([WalkingEnv] * 4, backend="serial") as plain,
    ):
        for pid in envs.worker_pids:
            kill(pid)
        with only(0), pytest.raises(OutOfDescriptors):
            envs.reset(seed=3)
        assert not difference(envs.reset(seed=3), plain.reset(seed=3))
        assert envs.stats.restarts == 2


@pytest.mark.parametrize("way", ["recv", "arecv"])
def test_environments_that_are_under_way_are_received_later(process_backend: str, way: str) -> None:
    async def receive() -> shoal.Batch:
        return await envs.arecv(min_envs=4) if way == "arecv" else envs.recv(min_envs=4)

    async def be_short_of_descriptors() -> None:
        with only(0), pytest.raises(OutOfDescriptors):
            await receive()

    with ParallelEnv([WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=1)
        kill(envs.worker_pids[0])
        envs.send([1] * 4)
        asyncio.run(be_short_of_descriptors())
        assert sorted(asyncio.run(receive()).env_ids.tolist()) == [0, 1, 2, 3]
        assert envs.stats.restarts == 1


def test_lists_of_worlds_go_on_too(process_backend: str) -> None:
    with (
        EnvList([WalkingEnv] * 2, backend=process_backend, num_workers=2, start_method="fork") as envs,
        EnvList([WalkingEnv] * 2, backend="serial") as plain,
    ):
        assert not difference(envs.reset(seed=1), plain.reset(seed=1))
        kill(envs.worker_pids[0])
        with only(0):
            for _ in range(2):
                with pytest.raises(OutOfDescriptors):
                    envs.step([1, 1])
        assert not difference(envs.step([1, 1]), plain.step([1, 1]))
        kill(envs.worker_pids[0])
        with only(0), pytest.raises(OutOfDescriptors):
            envs.step([1, 1])
        assert not difference(envs.reset(seed=2), plain.reset(seed=2))


def test_closing_while_a_worker_is_missing(process_backend: str) -> None:
    envs = ParallelEnv([WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork")
    envs.reset(seed=1)
    pids = envs.worker_pids
    kill(pids[0])
    with only(0), pytest.raises(OutOfDescriptors):
        envs.step([1] * 4)
    assert envs.worker_pids == pids, "the last that were there"
    envs.close(terminate=True)


@pytest.mark.parametrize("terminate", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_closing_takes_no_descriptor(process_backend: str, method: str, terminate: bool) -> None:
    envs = ParallelEnv([WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method=method)
    envs.reset(seed=1)
    with only(0):
        envs.close(terminate=terminate)


def test_a_worker_that_hangs_meanwhile_is_ended_all_the_same(
    process_backend: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fns: list[Any] = [WalkingEnv, functools.partial(FaultyEnv, str(tmp_path / "struck"), 2, asleep)]
    with (
        ParallelEnv(fns, backend=process_backend, num_workers=2, start_method="fork", step_timeout=1.0) as envs,
        ParallelEnv([WalkingEnv] * 2, backend="serial") as plain,
    ):
        assert not difference(envs.reset(seed=1), plain.reset(seed=1))
        assert not difference(envs.step([1, 1]), plain.step([1, 1]))
        with only(0), pytest.raises(OutOfDescriptors):
            envs.step([1, 1])
        assert not difference(envs.step([1, 1]), plain.step([1, 1]))
        assert envs.stats.restarts == 1
    assert "environment 1 took longer than 1 s" in caplog.text


def test_what_cannot_be_read_now_is_not_said_about_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    with ParallelEnv([WalkingEnv] * 2, backend="shm", num_workers=2, start_method="fork") as envs:
        envs.reset(seed=1)
        kill(envs.worker_pids[0])
        with only(0), pytest.raises(OutOfDescriptors):
            envs.step([1, 1])
        envs.step([1, 1])
    assert "Likely cause: out of memory (the system log says so), or somebody killed it." in caplog.text


def test_a_fork_server_that_may_open_no_more_files_is_said(process_backend: str) -> None:
    with (
        ParallelEnv([WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="forkserver") as envs,
        ParallelEnv([WalkingEnv] * 4, backend="serial") as plain,
    ):
        assert not difference(envs.reset(seed=1), plain.reset(seed=1))
        server = psutil.Process(envs.worker_pids[0]).ppid()
        kill(envs.worker_pids[0])
        limits = resource.prlimit(server, resource.RLIMIT_NOFILE)
        resource.prlimit(server, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{server}/fd")), limits[1]))
        with pytest.raises(OutOfDescriptors, match=rf"Limit: that of the fork server \(pid {server}\)") as caught:
            envs.step([1] * 4)
        assert "or raise its limit (prlimit)" in str(caught.value)
        resource.prlimit(server, resource.RLIMIT_NOFILE, limits)
        assert not difference(envs.step([1] * 4), plain.step([1] * 4))
        assert psutil.Process(envs.worker_pids[0]).ppid() == server


@pytest.mark.parametrize("name", ["pipes", "shm"])
def test_where_no_worker_can_be_started_at_all_nothing_is_left(name: str) -> None:
    with MarkedProgram(f"""
        import os, resource, shoal
        from tests.envs import CountingEnv
        shoal.ParallelEnv([CountingEnv], backend="{name}", start_method="fork").close()  # imports what is imported late
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        held = []
        try:
            while True: held.append(os.open(os.devnull, 0))
        except OSError: pass
        for free in range(0, 50, 2):
            try:
                shoal.ParallelEnv([CountingEnv] * 2, backend="{name}", num_workers=2, start_method="fork").close()
            except (shoal.ConfigurationError, shoal.OutOfDescriptors) as error:
                print(free, error)
            else:
                print(free, "made")
            os.close(held.pop()), os.close(held.pop())
        for descriptor in held: os.close(descriptor)
        print(os.listdir("/proc/self/fd"))
    """) as program:
        code, output, errors = program.end()
        assert (code, errors) == (0, "")
        assert output.startswith(
            "0 2 workers need about 92 open files, and this process may have 64: use fewer workers"
        )
        assert " made\n" in output
        assert output.endswith("['0', '1', '2', '3']\n")
