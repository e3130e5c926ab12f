"""How environments live in a worker: what they log, print, share and start, and on which processor."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
import subprocess
import sys
import time
from typing import Any

import psutil
import pytest

from shoal import ParallelEnv
from shoal.vector.cpus import usable_cpus
from tests.envs import CountingEnv, counting
from tests.looking import always_look


class LoggingEnv(CountingEnv):
    def step(self, action: Any) -> Any:
        logging.getLogger("my.env").info("action %d", action)
        logging.getLogger("my.env").debug("nobody wants this")
        return super().step(action)


def test_log_records_of_workers_reach_the_callers_loggers(
    way: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="my.env"), ParallelEnv([LoggingEnv] * 2, num_workers=2, **way) as envs:
        envs.reset()
        envs.step([3, 4])
    messages = sorted(record.getMessage() for record in caplog.records if record.name == "my.env")
    assert messages == ["action 3", "action 4"]


def test_debug_logging_shows_who_does_what(process_backend: str, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.DEBUG, logger="shoal"),
        ParallelEnv([counting()] * 3, backend=process_backend, num_workers=2),
    ):
        pass
    assert "worker 1 is process" in caplog.text
    assert "environments 1 to 2" in caplog.text


def thread_limits() -> CountingEnv:
    env = CountingEnv()
    env.label = "/".join(
        os.environ.get(name, "?")
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONHASHSEED")
    )
    return env


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_workers_compute_with_one_thread_and_one_hash_order(process_backend: str, method: str) -> None:
    with ParallelEnv([thread_limits] * 2, backend=process_backend, start_method=method, num_workers=2) as envs:
        seed = os.environ.get("PYTHONHASHSEED", "0")
        assert envs.get_attr("label") == (f"1/1/1/{seed}",) * 2


def processors(_: object) -> str:
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


@pytest.mark.parametrize("looks", [True, False], ids=["looking", "sleeping"])
def test_each_worker_has_a_processor_of_its_own_while_it_looks_where_there_is_one_for_each(
    way: dict[str, Any], looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    available = sorted(os.sched_getaffinity(0))
    everywhere = ",".join(map(str, available))
    is_process = looks and way["backend"] in ("pipes", "shm") and len(available) == usable_cpus() > 1
    for num_workers, pin_workers, expected in (
        (len(available), True, list(map(str, available)) if is_process else [everywhere] * len(available)),
        (len(available), False, [everywhere] * len(available)),
        (len(available) + 1, True, [everywhere] * (len(available) + 1)),
    ):
        fns = [counting(100)] * num_workers
        always_look(monkeypatch, looks=False)
        with ParallelEnv(fns, num_workers=num_workers, pin_workers=pin_workers, **way) as envs:
            assert set(envs.call(processors)) == {everywhere}, "what it starts when it is made is not bound"
            envs.reset()
            always_look(monkeypatch, looks=looks)
            for _ in range(3):
                envs.step([0] * num_workers)
            assert list(envs.call(processors)) == expected
    assert sorted(os.sched_getaffinity(0)) == available


class PrintingEnv(CountingEnv):
    def step(self, action: Any) -> Any:
        print("noise" * 10_000)
        sys.stdout.flush()
        assert sys.stdin.read() == ""
        os.close(1)
        os.chdir("/")
        return super().step(action)


def test_an_environment_may_print_read_and_close_what_it_likes(
    process_backend: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with ParallelEnv([PrintingEnv, counting(100)], backend=process_backend, num_workers=2) as envs:
        envs.reset()
        observation, *_ = envs.step([0, 0])
        assert observation[:, 0].tolist() == [1, 1]
    assert "noise" in capfd.readouterr().out


def test_environments_may_share_a_manager_with_the_caller(way: dict[str, Any]) -> None:
    with multiprocessing.Manager() as manager:
        shared = manager.list()
        with ParallelEnv([functools.partial(ReportingEnv, shared)] * 2, num_workers=2, **way) as envs:
            envs.reset()
            envs.step([3, 4])
        assert sorted(shared) == [3, 4]


class ReportingEnv(CountingEnv):
    def __init__(self, shared: Any) -> None:
        super().__init__()
        self._shared = shared

    def step(self, action: Any) -> Any:
        self._shared.append(int(action))
        return super().step(action)


class ParentEnv(CountingEnv):
    def __init__(self) -> None:
        super().__init__()
        self.child = subprocess.Popen(["sleep", "1000"]).pid


def test_children_of_environments_end_with_them(process_backend: str) -> None:
    with ParallelEnv([ParentEnv] * 2, backend=process_backend, num_workers=2) as envs:
        children = envs.get_attr("child")
        assert all(psutil.pid_exists(pid) for pid in children)
    deadline = time.monotonic() + 5
    while any(map(psutil.pid_exists, children)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(psutil.pid_exists, children))


def test_the_processes_of_workers_are_named(backend: str) -> None:
    with ParallelEnv([CountingEnv] * 3, backend=backend, num_workers=2, start_method="fork") as envs:
        children = {child.pid for child in psutil.Process().children()}
        assert len(envs.worker_pids) == (2 if backend in ("pipes", "shm") else 0)
        assert set(envs.worker_pids) <= children
