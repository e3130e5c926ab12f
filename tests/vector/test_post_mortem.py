"""What is said of a worker that has died: how, why, where, what it left behind, and what to do."""

from __future__ import annotations

import faulthandler
import functools
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from shoal import EnvList, ParallelEnv, ShoalError, WorkerDied
from shoal.vector import post_mortem
from shoal.vector.backends.last_words import frames_of
from shoal.vector.messages import Death
from shoal.vector.post_mortem import LastWords, OomKills, Whereabouts, describe_death
from tests.envs import CountingEnv
from tests.scripts import run_script

FATAL = 4


def segfault() -> None:
    faulthandler._sigsegv()  # type: ignore[attr-defined]


def abort() -> None:
    os.abort()


def leave() -> None:
    os._exit(7)


class MortalEnv(CountingEnv):
    """Dies in its third step if it is then given action 4, after saying something."""

    def __init__(self, die: Callable[[], None], path: Path | None = None) -> None:
        super().__init__(length=100)
        self._die, self._path = die, path

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action == FATAL and self.count == 2 and not (self._path and self._path.exists()):
            if self._path:
                self._path.touch()
            print("first line\nlast line", file=sys.stderr)
            self._die()
        return super().step(action)


def close_what_is_not_its_own() -> None:
    os.closerange(3, 4096)


def close_what_is_not_its_own_and_go_on() -> None:
    os.closerange(3, 4096)
    time.sleep(60)


@pytest.mark.parametrize("die", [close_what_is_not_its_own, close_what_is_not_its_own_and_go_on])
def test_an_environment_that_closes_the_socket_of_its_worker_is_not_killed_by_somebody(
    die: Callable[[], None], process_backend: str, capfd: pytest.CaptureFixture[str]
) -> None:
    text = death_in_third_step(die, backend=process_backend)
    assert re.match(r"worker 1 \(pid \d+\) closed its connection to this process while .*, so it was ended\.", text)
    assert "closed descriptors that are not its own (os.closerange())." in text
    assert text.endswith("What to do: let the environment close only what it has opened.")
    assert "SIGKILL" not in text
    assert "Traceback" not in capfd.readouterr().err


def death_in_third_step(die: Callable[[], None], method: str = "fork", backend: str = "shm") -> str:
    """What the exception says."""
    env_fns: list[Any] = [functools.partial(MortalEnv, die)] * 4
    with ParallelEnv(env_fns, backend=backend, num_workers=2, start_method=method, on_fault="raise") as envs:
        envs.reset(seed=7)
        for _ in range(2):
            envs.step([0] * 4)
        with pytest.raises(WorkerDied) as caught:
            envs.step([0, 0, 0, FATAL])
            envs.get_attr("count")  # one that cannot be reached any more may have finished the step all the same
    return str(caught.value)


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize(
    ("die", "how", "why"),
    [
        (segfault, "was killed by SIGSEGV", "a crash in native code"),
        (abort, "was killed by SIGABRT", "native code gave up"),
    ],
)
def test_a_crash_is_shown_with_the_stack_it_happened_in(
    die: Callable[[], None], how: str, why: str, method: str
) -> None:
    said = death_in_third_step(die, method)
    assert re.match(rf"worker 1 \(pid \d+\) {how} while stepping environment 3\.\n  Likely cause: {why}", said)
    assert re.search(
        rf'  It was here:\n    File ".*test_post_mortem.py", line \d+ in {die.__name__}\n    File ".*", line \d+ in step\n  It',
        said,
    ), said
    assert "shoal/vector" not in said, "only the environment's part of the stack is shown"
    assert "  It printed last:\n    first line\n    last line\n" in said
    assert "  It ran environments 2 to 3 of 4.\n" in said
    assert said.endswith('What to do: run the same environment alone, with backend="serial" and a debugger.')


def memory_said_of_a_dead_worker(method: str, *, held_by_the_caller: int, held_by_the_worker: int) -> str:
    done = run_script(f"""
        import os
        import gymnasium as gym, numpy as np
        import shoal

        def hold(megabytes):
            return np.ones(megabytes * 2**20, np.uint8)

        class Heavy(gym.Env):
            observation_space = action_space = gym.spaces.Discrete(2)

            def reset(self, *, seed=None, options=None):
                self.held = hold({held_by_the_worker})
                return 0, {{}}

            def step(self, action):
                os.abort()

        hold({held_by_the_caller})
        with shoal.make(Heavy, 1, backend="shm", start_method="{method}", on_fault="raise") as envs:
            envs.reset()
            try:
                envs.step([0])
            except shoal.WorkerDied as death:
                print([line for line in str(death).splitlines() if "Memory" in line])
    """)
    return done.stdout


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_the_memory_of_a_dead_worker_is_told(method: str) -> None:
    said = memory_said_of_a_dead_worker(method, held_by_the_caller=0, held_by_the_worker=300)
    found = re.fullmatch(r"\['  Memory: (\d+) MB at most\.'\]\n", said)
    assert found is not None, said
    assert 300 < int(found[1]) < 500


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_the_memory_of_the_caller_is_not_taken_for_that_of_a_worker(method: str) -> None:
    said = memory_said_of_a_dead_worker(method, held_by_the_caller=600, held_by_the_worker=1)
    assert not re.search(r"[3-9]\d\d MB|GB", said), said


def test_a_worker_that_leaves_is_said_to_have_left(process_backend: str) -> None:
    said = death_in_third_step(leave, backend=process_backend)
    assert "ended by itself with exit code 7" in said
    assert "called exit() or os._exit()" in said
    assert "It was here" not in said
    assert said.endswith('look at what it printed, or run the same environment with backend="serial".')


def test_where_an_environment_was_is_said(
    process_backend: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env_fns: list[Any] = [functools.partial(MortalEnv, segfault, tmp_path / "dead")] * 4
    with ParallelEnv(env_fns, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=7)
        for _ in range(2):
            envs.step([0] * 4)
        envs.step([0, 0, 0, FATAL])
        assert envs.stats.restarts == 1
    assert "was killed by SIGSEGV while in step(), at environment 3." in caplog.text
    assert "  Where: seed 10, episode 0, step 3, action 4.\n" in caplog.text
    assert "  It printed last:\n    first line\n    last line\n" in caplog.text


def test_where_an_environment_was_is_said_of_one_that_was_sent_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env_fns: list[Any] = [functools.partial(MortalEnv, segfault, tmp_path / "dead")] * 2
    with ParallelEnv(env_fns, backend="shm", num_workers=2, start_method="fork") as envs:
        envs.reset()
        for _ in range(2):
            envs.step([0] * 2)
        envs.send([FATAL], env_ids=[1])
        envs.recv()
    assert "  Where: episode 0, step 3, action 4.\n" in caplog.text


class ComplexEnv(gymnasium.Env[Any, Any]):
    """Takes actions of several parts."""

    def __init__(self, path: Path) -> None:
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Dict({"move": spaces.Box(-1, 1, (2,), np.float64), "say": spaces.Text(9)})
        self._path = path

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action["say"] == "bye" and not self._path.exists():
            self._path.touch()
            segfault()
        return np.zeros(2, np.float32), 0.0, False, False, {}


def test_an_action_of_several_parts_is_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EnvList([lambda: ComplexEnv(tmp_path / "dead")], backend="pipes", start_method="fork") as envs:
        envs.reset(seed=3)
        envs.step([{"move": np.array([0.5, 0.0]), "say": "bye"}])
    assert re.search(r"Where: seed 3, episode 0, step 1, action \{'move': array.*'say': 'bye'\}", caplog.text)


def test_a_worker_that_took_too_long_is_not_said_to_have_run_out_of_memory(caplog: pytest.LogCaptureFixture) -> None:
    def hang() -> None:
        while True:
            pass

    env_fns: list[Any] = [functools.partial(MortalEnv, hang)] * 2
    with ParallelEnv(env_fns, backend="shm", num_workers=2, start_method="fork", step_timeout=0.5) as envs:
        envs.reset()
        for _ in range(2):
            envs.step([0, 0])
        with pytest.raises(ShoalError) as caught:
            envs.step([0, FATAL])
    said = str(caught.value)
    assert re.search(r'it was here:\n    File ".*test_post_mortem.py", line \d+ in hang\n', said)
    assert re.search(r"  Its worker 1 \(pid \d+\) was ended\.\n", said)
    assert "memory" not in said.lower()
    assert "raise the timeout, or find out what the environment waits for." in said


def described(exit_code: int | None, **keywords: Any) -> str:
    return describe_death(Death(1, 99, exit_code), "in step()", range(2, 4), 8, **keywords)


def test_little_is_said_when_little_is_known() -> None:
    assert described(3).splitlines() == [
        "worker 1 (pid 99) ended by itself with exit code 3 while in step().",
        "  Likely cause: the environment, or a library it uses, called exit() or os._exit().",
        "  It ran environments 2 to 3 of 8.",
        '  What to do: look at what it printed, or run the same environment with backend="serial".',
    ]


@pytest.mark.parametrize(
    ("exit_code", "how", "why"),
    [
        (None, "ended, and nobody knows how,", "is gone too, or another part of this program has waited"),
        (-signal.SIGBUS, "was killed by SIGBUS", "memory-mapped data"),
        (-signal.SIGILL, "was killed by SIGILL", "built for another processor"),
        (-signal.SIGFPE, "was killed by SIGFPE", "divided by zero"),
        (-signal.SIGXCPU, "was killed by SIGXCPU", "processor time"),
        (-signal.SIGTERM, "was killed by SIGTERM", "a job scheduler does that"),
        (-signal.SIGALRM, "was killed by SIGALRM", "an alarm"),
        (-signal.SIGUSR1, "was killed by SIGUSR1", "sent that signal"),
        (-100, "was killed by signal 100", "sent that signal"),
    ],
)
def test_every_ending_has_words(exit_code: int | None, how: str, why: str) -> None:
    said = described(exit_code)
    assert how in said
    assert why in said


def oom_world(folder: Path, count: int, *, grouped: bool) -> None:
    name = "sys/fs/cgroup/job/memory.events" if grouped else "proc/vmstat"
    for file, text in {"proc/self/cgroup": "0::/job\n", name: f"oom 3\noom_kill {count}\nlow 1\n"}.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)


@pytest.mark.parametrize("grouped", [False, True])
def test_want_of_memory_is_told_from_murder(tmp_path: Path, grouped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    oom_world(tmp_path, 5, grouped=grouped)
    monkeypatch.setattr(post_mortem, "_oom_kills", OomKills(tmp_path))
    assert "somebody killed it. The system has ended nothing for want of memory." in described(-9)
    oom_world(tmp_path, 6, grouped=grouped)
    assert "out of memory: the system has ended a process for want of it." in described(-9)
    assert "somebody killed it" in described(-9), "one is counted once"


def test_where_it_is_not_counted_both_are_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post_mortem, "_oom_kills", OomKills(tmp_path))
    assert "out of memory (the system log says so), or somebody killed it." in described(-9)


def test_memory_and_whereabouts_are_worded() -> None:
    large = describe_death(Death(0, 1, -9, 3 * 2**30), "in step()", range(1), 1)
    assert "  Memory: 3.0 GB at most.\n" in large
    assert "Where: episode 2, action [1, 2]." in described(1, where=Whereabouts(episode=2, action=[1, 2]))
    assert "Where" not in described(1, where=Whereabouts())


def test_long_texts_are_cut() -> None:
    printed = "\n".join(f"line {number} {'x' * 300}" for number in range(50))
    said = described(1, words=LastWords("", printed))
    assert "line 39 " not in said
    assert "line 40 " in said
    assert max(map(len, said.splitlines())) <= 204
    deep = "Current thread 0x1 (most recent call first):\n" + "".join(
        f'  File "a.py", line {n} in f\n' for n in range(99)
    )
    assert len(frames_of(deep).splitlines()) == 12


def test_of_several_threads_the_one_that_crashed_is_shown() -> None:
    stack = (
        'Thread 0x1 (most recent call first):\n  File "other.py", line 1 in wait\n\n'
        'Current thread 0x2 (most recent call first):\n  File "guilty.py", line 2 in step\n\n'
        'Thread 0x3 (most recent call first):\n  File "third.py", line 3 in wait\n'
    )
    assert frames_of(stack) == 'File "guilty.py", line 2 in step'
    assert frames_of("nothing that is known") == "nothing that is known"
