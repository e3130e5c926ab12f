"""Starting, closing and ending: nothing hangs, nothing is left behind, nothing is said twice."""

from __future__ import annotations

import functools
import gc
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import gymnasium
import psutil
import pytest

from shoal import ParallelEnv, ShoalError
from shoal.vector.cpus import usable_cpus
from tests.conftest import WAYS_TO_START
from tests.envs import CountingEnv, HangingEnv, SlowEnv, counting

ROOT = Path(__file__).parents[2]


def run_script(code: str, **keywords: Any) -> subprocess.CompletedProcess[str]:
    """Run a program of its own, as a user would."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, **keywords,
    )  # fmt: skip


def start_script(path: Path, code: str) -> subprocess.Popen[str]:
    path.write_text(textwrap.dedent(code))
    return subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_close_may_be_repeated_and_ends_everything(way: dict[str, Any]) -> None:
    envs = ParallelEnv([counting()] * 3, **way)
    envs.reset()
    envs.close()
    assert envs.closed
    envs.close()
    envs.close(terminate=True)


def test_close_works_before_the_first_reset(way: dict[str, Any]) -> None:
    envs = ParallelEnv([counting()] * 3, **way)
    envs.close()
    assert envs.closed


@pytest.mark.parametrize("terminate", [False, True])
def test_close_during_a_pending_step_warns_and_ends(process_backend: str, terminate: bool) -> None:
    envs = ParallelEnv([SlowEnv] * 2, backend=process_backend)
    envs.reset()
    envs.step_async([2, 2])
    with pytest.warns(UserWarning, match="Calling `close` while waiting for a pending call to `step` to complete"):
        envs.close(terminate=terminate)


def test_close_is_bounded_when_an_environment_hangs(process_backend: str, caplog: pytest.LogCaptureFixture) -> None:
    envs = ParallelEnv([HangingEnv] * 2, backend=process_backend, num_workers=2)
    envs.reset()
    envs.step_async([0, 4])
    with pytest.raises(TimeoutError):
        envs.step_wait(timeout=0.2)
    start = time.monotonic()
    envs.close(timeout=0.5)
    assert time.monotonic() - start < 10
    assert "worker 1" in caplog.text
    assert "it was busy with environment 1; it is killed" in caplog.text


def test_a_thread_that_hangs_is_left_behind_and_said(caplog: pytest.LogCaptureFixture) -> None:
    envs = ParallelEnv([SlowEnv] * 2, backend="threads", num_workers=2)
    envs.reset()
    envs.step_async([4, 0])
    with pytest.raises(TimeoutError):
        envs.step_wait(timeout=0.01)
    envs.close(timeout=0.01)
    assert "environment 0 did not return within 0.0 s of close(); its thread cannot be ended" in caplog.text


def test_environments_are_closed_by_close(backend: str, tmp_path: Path) -> None:
    with ParallelEnv([lambda: NotingEnv(tmp_path / "closed")] * 3, backend=backend, num_workers=2) as envs:
        envs.reset()
    assert (tmp_path / "closed").read_text() == "xxx"


def test_an_environment_that_raises_in_close_is_logged_and_the_others_are_closed(
    backend: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fns = [lambda: NotingEnv(tmp_path / "closed"), lambda: NotingEnv(tmp_path / "closed", grumpy=True)] * 2
    ParallelEnv(fns, backend=backend, num_workers=1).close()
    assert (tmp_path / "closed").read_text() == "xx"
    assert caplog.text.count("an environment raised in close()") == 2
    assert "RuntimeError: not now" in caplog.text


class NotingEnv(CountingEnv):
    def __init__(self, path: Path, grumpy: bool = False) -> None:
        super().__init__()
        self._path, self._grumpy = path, grumpy

    def close(self) -> None:
        if self._grumpy:
            raise RuntimeError("not now")
        with self._path.open("a") as file:
            file.write("x")


def test_collected_environments_close_themselves(way: dict[str, Any]) -> None:
    envs = ParallelEnv([counting()] * 2, **way)
    envs.reset()
    gone = weakref.ref(envs)
    del envs
    gc.collect()
    assert gone() is None


def test_a_failed_start_leaves_nothing(process_backend: str) -> None:
    with pytest.raises(ZeroDivisionError, match="environment 2"):
        ParallelEnv([counting(), counting(), lambda: 1 / 0], backend=process_backend, num_workers=3)  # type: ignore[list-item, return-value]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), [*WAYS_TO_START, ("threads", None), ("serial", None)])
def test_many_cycles_leave_no_trace(name: str, method: str | None) -> None:
    def cycle() -> None:
        with ParallelEnv([counting()] * 2, backend=name, start_method=method, num_workers=2) as envs:
            envs.reset()
            envs.step([0, 0])

    cycle()
    before = (len(os.listdir("/proc/self/fd")), threading.active_count(), psutil.Process().memory_info().rss)
    for _ in range(20 if method in ("spawn", "forkserver") else 200):
        cycle()
    after = (len(os.listdir("/proc/self/fd")), threading.active_count(), psutil.Process().memory_info().rss)
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 8_000_000
    assert not psutil.Process().children(recursive=True)


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_a_program_that_never_closes_ends_quietly(method: str) -> None:
    done = run_script(f"""
        import shoal
        envs = shoal.make("CartPole-v1", 3, backend="shm", num_workers=2, start_method={method!r})
        envs.reset()
        envs.step([0, 1, 0])
        print("end")
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_program_that_ends_by_an_exception_shows_only_that(tmp_path: Path) -> None:
    done = run_script("""
        import shoal
        envs = shoal.make("CartPole-v1", 2, backend="shm", num_workers=2)
        envs.reset()
        envs.step_async([0, 1])
        raise RuntimeError("mine")
    """)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.rstrip().endswith("RuntimeError: mine")


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_a_script_needs_no_main_guard(tmp_path: Path, method: str) -> None:
    script = tmp_path / "script.py"
    process = start_script(
        script,
        f"""
        import gymnasium, numpy, shoal
        print("begin")

        class Mine(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(0, 1, (1,))
            action_space = gymnasium.spaces.Discrete(2)
            def reset(self, *, seed=None, options=None):
                return numpy.zeros(1, numpy.float32), {{"me": Note("reset")}}
            def step(self, action):
                return numpy.ones(1, numpy.float32), 1.0, False, False, {{"me": Note("step")}}

        class Note:
            def __init__(self, text): self.text = text

        gymnasium.register("Mine-v0", Mine)
        for make in (Mine, "Mine-v0", lambda: gymnasium.make("Mine-v0")):
            envs = shoal.make(make, 2, backend="shm", num_workers=2, start_method={method!r})
            _, info = envs.reset()
            assert isinstance(info["me"][0], Note)
            envs.step([0, 0])
            envs.close()
        print("end")
        """,
    )
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "begin\nend\n", "")


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_ctrl_c_gives_one_traceback_and_leaves_nothing(tmp_path: Path, method: str) -> None:
    process = start_script(
        tmp_path / "script.py",
        f"""
        import shoal
        from tests.envs import HangingEnv
        envs = shoal.make(HangingEnv, 2, backend="shm", num_workers=2, start_method={method!r})
        envs.reset()
        print("ready", flush=True)
        envs.step([0, 4])
        """,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    workers = psutil.Process(process.pid).children(recursive=True)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert not alive


def test_a_wait_that_is_interrupted_can_be_resumed(process_backend: str) -> None:
    with ParallelEnv([SlowEnv] * 2, backend=process_backend) as envs:
        envs.reset()
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            envs.step([4, 0])
        timer.join()
        _, reward, *_ = envs.step_wait(timeout=30)
        assert reward.tolist() == [4, 0]
        envs.step([0, 0])


def test_an_interrupted_serial_step_asks_for_a_reset() -> None:
    with ParallelEnv([InterruptedEnv] * 2, backend="serial") as envs:
        envs.reset()
        with pytest.raises(KeyboardInterrupt):
            envs.step([0, 4])
        with pytest.raises(gymnasium.error.ResetNeeded):
            envs.step([0, 0])
        envs.reset()
        envs.step([0, 0])


class InterruptedEnv(CountingEnv):
    def step(self, action: Any) -> Any:
        if action == 4:
            raise KeyboardInterrupt
        return super().step(action)


def test_a_forked_child_neither_uses_nor_harms_the_environments(process_backend: str) -> None:
    with ParallelEnv([counting(100)] * 2, backend=process_backend) as envs:
        envs.reset()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                envs.step([0, 0])
            except ShoalError as error:
                code = 0 if "belong to process" in str(error) else 2
            envs.close()
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        observation, *_ = envs.step([0, 0])
        assert observation[:, 0].tolist() == [1, 1]


def test_workers_end_with_a_caller_that_is_killed(tmp_path: Path) -> None:
    process = start_script(
        tmp_path / "script.py",
        """
        import time, shoal
        envs = shoal.make("CartPole-v1", 2, backend="shm", num_workers=2)
        envs.reset()
        print("ready", flush=True)
        time.sleep(60)
        """,
    )
    assert process.stdout is not None
    process.stdout.readline()
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) == 3
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert not alive


def test_importing_is_quick_quiet_and_light() -> None:
    done = run_script("""
        import sys, threading
        import shoal
        heavy = {"torch", "ray", "numba", "rich", "tyro", "pydantic", "yaml", "matplotlib"} & set(sys.modules)
        assert not heavy, heavy
        assert threading.active_count() == 1
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


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


def processors() -> CountingEnv:
    env = CountingEnv()
    env.label = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    return env


def test_each_worker_has_a_processor_of_its_own_where_there_is_one_for_each(way: dict[str, Any]) -> None:
    available = sorted(os.sched_getaffinity(0))
    everywhere = ",".join(map(str, available))
    is_process = way["backend"] in ("pipes", "shm") and len(available) == usable_cpus() > 1
    for num_workers, pin_workers, expected in (
        (len(available), True, list(map(str, available)) if is_process else [everywhere] * len(available)),
        (len(available), False, [everywhere] * len(available)),
        (len(available) + 1, True, [everywhere] * (len(available) + 1)),
    ):
        fns = [processors] * num_workers
        with ParallelEnv(fns, num_workers=num_workers, pin_workers=pin_workers, **way) as envs:
            assert list(envs.get_attr("label")) == expected
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


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_the_portable_way_gives_the_same(method: str) -> None:
    done = run_script(
        f"""
        import shoal, tests.comparing as comparing
        from tests.envs import counting
        results = []
        for backend in ("serial", "pipes", "shm"):
            with shoal.ParallelEnv([counting(3)] * 5, backend=backend, num_workers=2, start_method={method!r}) as envs:
                results.append(comparing.rollout(envs, 9))
        assert not comparing.difference(results[0], results[1])
        assert not comparing.difference(results[0], results[2])
        """,
        env={**os.environ, "SHOAL_PORTABLE": "1"},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_worker_that_dies_is_noticed_the_portable_way_too() -> None:
    done = run_script(
        """
        import shoal
        from tests.envs import DyingEnv
        envs = shoal.ParallelEnv([DyingEnv] * 2, backend="shm", num_workers=2)
        envs.reset()
        try:
            envs.step([0, 4])
        except shoal.WorkerDied as error:
            print(str(error).splitlines()[0].split(")")[1])
        """,
        env={**os.environ, "SHOAL_PORTABLE": "1"},
    )
    assert (done.stdout, done.stderr) == (" was killed by SIGKILL while stepping environment 1.\n", "")
