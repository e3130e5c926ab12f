"""Nothing outlives its caller: workers, the spare, the nursery, and whatever environments have started."""

from __future__ import annotations

import threading
import time

import psutil
import pytest

from shoal import ParallelEnv
from tests.envs import counting
from tests.marked import MarkedProgram
from tests.rough import BusyEnv
from tests.scripts import run_script

METHODS = ("fork", "forkserver", "spawn")
PROMISED = 3.0  # a second on a machine that has nothing else to do

RUNNING = """
    import functools, os, threading, time, shoal
    from tests import rough

    made = []

    def make():
        envs = shoal.ParallelEnv({env_fns}, backend="shm", num_workers={num_workers}, start_method={method!r})
        envs.reset()
        envs._pool.backend.start_spare()
        busy = list(range(1, envs.num_envs))
        if busy:
            envs.send(busy, env_ids=busy)  # the first stays idle, the second is busy in Python, the third in C
        made.append(envs)

    {call}
    time.sleep(0.2)
    print("ready", flush=True)
    time.sleep(600)
"""
CALL = {"main": "make()", "thread": "maker = threading.Thread(target=make); maker.start(); maker.join()"}


def running(method: str, env_fns: str, num_workers: int, call: str = "main", **variables: str) -> MarkedProgram:
    code = RUNNING.format(method=method, env_fns=env_fns, num_workers=num_workers, call=CALL[call])
    return MarkedProgram(code, **variables)


def kill_and_wait(program: MarkedProgram) -> None:
    program.process.kill()
    print(f"gone after {program.wait_until_alone(PROMISED):.3f} s")


@pytest.mark.parametrize("call", CALL)
@pytest.mark.parametrize("method", METHODS)
def test_idle_busy_and_locked_workers_end_with_a_caller_that_is_killed(method: str, call: str) -> None:
    with running(method, "[rough.BusyEnv] * 3", 3, call) as program:
        program.expect("ready")
        nursery, spare = int(method == "forkserver"), 1
        assert len(program.others()) == 3 + 3 + spare + nursery, "workers, their helpers, the spare and the nursery"
        kill_and_wait(program)


@pytest.mark.parametrize(("method", "num_envs"), [("fork", 2), ("spawn", 2), ("forkserver", 3)])
def test_the_portable_way_ends_them_too(method: str, num_envs: int) -> None:
    # C code that holds the lock keeps the watching thread of a worker from running; the nursery does without one.
    with running(method, f"[rough.BusyEnv] * {num_envs}", num_envs, SHOAL_PORTABLE="1") as program:
        program.expect("ready")
        assert len(program.others()) > 2 * num_envs
        kill_and_wait(program)


@pytest.mark.parametrize("num_started", [1, 3])
@pytest.mark.parametrize("method", METHODS)
def test_a_caller_that_is_killed_while_its_workers_start_leaves_none(method: str, num_started: int) -> None:
    with MarkedProgram(f"""
        import shoal
        from tests.rough import SlowStartEnv
        print("begin", flush=True)
        shoal.ParallelEnv([SlowStartEnv] * 3, backend="shm", num_workers=3, start_method={method!r})
    """) as program:
        program.expect("begin")
        while len(program.others()) < num_started:
            time.sleep(0.001)
        kill_and_wait(program)


@pytest.mark.parametrize("helper", ["session", "daemon"])
def test_what_has_left_its_worker_ends_too(helper: str) -> None:
    with running("forkserver", f"[functools.partial(rough.BusyEnv, {helper!r})] * 2", 2) as program:
        program.expect("ready")
        assert len(program.others()) == 2 + 2 + 2
        kill_and_wait(program)


@pytest.mark.parametrize("env", ["SessionEnv", "WanderingEnv"])
def test_a_worker_that_has_left_its_group_ends_too(env: str) -> None:
    with running("fork", f"[rough.{env}] * 2", 2) as program:
        program.expect("ready")
        assert len(program.others()) == 2 + 2 + 1
        kill_and_wait(program)


def test_a_child_that_the_caller_has_forked_keeps_no_worker() -> None:
    with MarkedProgram("""
        import os, time, shoal
        from tests.envs import CountingEnv
        envs = shoal.ParallelEnv([CountingEnv] * 2, backend="shm", num_workers=2)
        envs.reset()
        pid = os.fork()
        if not pid:
            time.sleep(600)
        print(pid, flush=True)
        time.sleep(600)
    """) as program:
        assert program.process.stdout is not None
        child = int(program.process.stdout.readline())
        program.process.kill()
        begin = time.monotonic()
        while set(program.others()) != {child}:
            assert time.monotonic() - begin < PROMISED, program.others()
            time.sleep(0.005)


def test_a_forked_child_does_not_close_what_has_got_the_number_of_something_of_ours() -> None:
    done = run_script("""
        import gc, os, shoal
        from tests.envs import CountingEnv
        envs = shoal.ParallelEnv([CountingEnv] * 2, backend="shm", num_workers=2, start_method="fork")
        pid = os.fork()
        if not pid:
            files = [open(os.devnull) for _ in range(50)]
            del envs  # with its sockets, whose numbers the child must not have used again
            gc.collect()
            for file in files:
                os.fstat(file.fileno())
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        envs.close()
    """)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_that_is_killed_takes_what_it_has_started(method: str) -> None:
    with ParallelEnv(
        [lambda: BusyEnv("plain"), lambda: BusyEnv("session")],
        backend="shm", num_workers=2, start_method=method, step_timeout=0.5, on_fault="raise",
    ) as envs:  # fmt: skip
        envs.reset()
        before = [psutil.Process(pid) for pid in envs.call("helper_pid")]
        with pytest.raises(TimeoutError):
            envs.step([1, 1])
        gone, alive = psutil.wait_procs(before, timeout=10)
        assert not alive


def test_a_worker_that_crashes_takes_what_it_has_started_and_nothing_of_others() -> None:
    helpers = [lambda: BusyEnv("session")] * 2
    with ParallelEnv(helpers, backend="shm", num_workers=2, start_method="forkserver") as envs:
        envs.reset()
        crashing, other = [psutil.Process(pid) for pid in envs.call("helper_pid")]
        envs.send([3], env_ids=[0])
        crashing.wait(timeout=10)
        assert other.is_running()


@pytest.mark.parametrize("helper", ["plain", "session"])
@pytest.mark.parametrize("method", METHODS)
def test_close_takes_what_environments_have_started(method: str, helper: str) -> None:
    with ParallelEnv([lambda: BusyEnv(helper)] * 2, backend="shm", num_workers=2, start_method=method) as envs:
        envs.reset()
        helpers = [psutil.Process(pid) for pid in envs.call("helper_pid")]
        assert all(one.is_running() for one in helpers)
    gone, alive = psutil.wait_procs(helpers, timeout=10)
    assert not alive


@pytest.mark.parametrize("method", METHODS)
def test_workers_outlive_the_thread_that_has_started_them(method: str) -> None:
    made: list[ParallelEnv] = []

    def make() -> None:
        made.append(ParallelEnv([counting(100)] * 2, backend="shm", num_workers=2, start_method=method))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    with made[0] as envs:
        pids = envs.worker_pids
        envs.reset()
        time.sleep(0.3)
        observation, *_ = envs.step([0, 0])
        assert observation[:, 0].tolist() == [1, 1]
        assert envs.worker_pids == pids
        assert envs.stats.restarts == 0
