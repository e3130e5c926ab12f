"""Whole programs: without a guard, interrupted, killed, ended by an exception, imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import psutil
import pytest

from shoal import ParallelEnv, ShoalError
from tests.envs import CountingEnv, SlowEnv, counting
from tests.scripts import ROOT, run_script, start_script


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


@pytest.mark.parametrize("what", ["threads", "torch"])
def test_a_fork_of_a_process_with_threads_is_warned_of(what: str) -> None:
    done = run_script(f"""
        import sys, threading, warnings
        import shoal
        from tests.envs import CountingEnv

        if {what == "threads"}:
            stay = threading.Event()
            threading.Thread(target=stay.wait, name="my-thread").start()
        else:
            sys.modules["torch"] = sys
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            shoal.ParallelEnv([CountingEnv] * 2, backend="shm", num_workers=2).close()
            shoal.ParallelEnv([CountingEnv] * 2, backend="serial", start_method="fork").close()
            assert not caught, caught
            shoal.ParallelEnv([CountingEnv] * 2, backend="shm", num_workers=2, start_method="fork").close()
        print([str(each.message) for each in caught if each.category is RuntimeWarning])
        if {what == "threads"}:
            stay.set()
    """, env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    reason = "other threads (my-thread)" if what == "threads" else "loaded torch, which computes in threads of its own"
    assert f'start_method="fork" copies this process, which has {reason}: workers may wait' in done.stdout, done


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
def test_a_program_that_comes_from_standard_input_works(method: str) -> None:
    code = textwrap.dedent(f"""
        import gymnasium, shoal
        class Mine(gymnasium.Wrapper):
            def __init__(self): super().__init__(gymnasium.make("CartPole-v1"))
        envs = shoal.make(Mine, 2, backend="shm", num_workers=2, start_method={method!r})
        envs.reset(seed=0)
        print(envs.step([0, 1])[1].tolist())
    """)
    done = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1.0, 1.0]\n", "")


def test_a_program_that_leaves_on_sigterm_writes_what_it_has(tmp_path: Path) -> None:
    kept = tmp_path / "trajectory"
    process = start_script(
        tmp_path / "script.py",
        f"""
        import atexit, signal, sys
        import shoal
        from tests.envs import HangingEnv
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        envs = shoal.make(HangingEnv, 2, backend="shm", num_workers=2)
        file = open({str(kept)!r}, "w")
        atexit.register(file.close)
        envs.reset()
        for number in range(1000):
            file.write(f"{{envs.step([0, 0])[1].sum()}}\\n")
        print("ready", flush=True)
        envs.step([0, 4])
        """,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()
    workers = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (143, "")
    assert len(kept.read_text().splitlines()) == 1000
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert not alive


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
    with ParallelEnv([SlowEnv] * 2, backend=process_backend, start_method="fork") as envs:
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
    with ParallelEnv([counting(100)] * 2, backend=process_backend, start_method="fork") as envs:
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


Use = tuple[Callable[[ParallelEnv], object], Callable[[ParallelEnv], object]]
USES: dict[str, Use] = {
    "step_wait": (lambda envs: envs.step_async([0, 0]), lambda envs: envs.step_wait()),
    "reset_wait": (lambda envs: envs.reset_async(), lambda envs: envs.reset_wait()),
    "call_wait": (lambda envs: envs.call_async("count"), lambda envs: envs.call_wait()),
    "recv": (lambda envs: envs.send([0, 0]), lambda envs: envs.recv()),
    "is_ready": (lambda envs: envs.send([0, 0]), lambda envs: envs.is_ready()),
    "step_async": (lambda envs: None, lambda envs: envs.step_async([0, 0])),
    "send": (lambda envs: None, lambda envs: envs.send([0, 0])),
    "send_reset": (lambda envs: None, lambda envs: envs.send_reset()),
    "reset": (lambda envs: None, lambda envs: envs.reset()),
    "get_attr": (lambda envs: None, lambda envs: envs.get_attr("count")),
    "set_attr": (lambda envs: None, lambda envs: envs.set_attr("count", 1)),
    "state_dict": (lambda envs: None, lambda envs: envs.state_dict()),
    "fork": (lambda envs: None, lambda envs: envs.fork(0, [1])),
    "stats": (lambda envs: None, lambda envs: envs.stats),
    "part.step": (lambda envs: None, lambda envs: envs.split()[0].step([0])),
}


@pytest.mark.parametrize("use", USES)
def test_every_use_in_a_forked_child_is_refused_and_closing_is_harmless(make: Any, use: str) -> None:
    begin, go_on = USES[use]
    envs = make([counting(100)] * 2)
    envs.reset(seed=1)
    begin(envs)
    said = in_forked_child(envs, go_on)
    assert said.startswith(
        f"ShoalError: these environments belong to process {os.getpid()} and cannot be used in a process"
    )
    assert said.endswith("What to do: make others there; close() does nothing there, and is not needed")
    if use in ("step_wait", "reset_wait", "call_wait"):
        go_on(envs)
    elif use in ("recv", "is_ready"):
        envs.recv(min_envs=2)
    observation, *_ = envs.step([0, 0])
    assert observation[:, 0].tolist() in ([1, 1], [2, 2])


def test_the_part_of_environments_that_is_under_way_is_refused_in_a_forked_child(make: Any) -> None:
    envs = make([counting(100)] * 4)
    envs.reset(seed=1)
    parts = envs.split()
    for part in parts:
        part.step_async([0, 0])
    assert "ShoalError: these environments belong to process" in in_forked_child(envs, lambda _: parts[0].step_wait())
    for part in parts:
        assert part.step_wait()[0][:, 0].tolist() == [1, 1]


def in_forked_child(envs: ParallelEnv, go_on: Callable[[Any], object]) -> str:
    """What a forked child is told that goes on with these environments, and then closes them."""
    answer, its = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "nothing"
        try:
            go_on(envs)
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            envs.close()
        os.write(its, said.encode())
        os._exit(0)
    os.close(its)
    with open(answer) as file:
        said = file.read()
    os.waitpid(pid, 0)
    return said


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


def limited_to(soft: int, hard: int, num_workers: int) -> str:
    """What a program with such a limit of open files prints when it makes so many workers."""
    return run_script(f"""
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
        import shoal
        try:
            with shoal.make("CartPole-v1", {num_workers}, backend="shm", num_workers={num_workers}) as envs:
                envs.reset(seed=0)
                print("made", envs.num_envs)
        except shoal.ConfigurationError as error:
            print(error)
    """).stdout


def test_a_limit_of_open_files_is_raised_if_it_may_be() -> None:
    assert limited_to(40, 400, num_workers=12) == "made 12\n"


def test_a_limit_of_open_files_that_is_too_low_is_said_before_anything_starts() -> None:
    said = limited_to(40, 60, num_workers=40)
    assert said.startswith("40 workers need about 1")
    assert "open files, and this process may have 60: use fewer workers" in said
