"""Children that an environment forks and that come back from its code: they end, and change nothing of the rollout."""

from __future__ import annotations

import asyncio
import functools
import logging
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import shoal
from tests.comparing import difference

NUM_STEPS = 30
FORKS_AT = 7


def return_from_it() -> None:
    """A forgotten os._exit()."""


def fail_to_run_a_program() -> None:
    os.execv("/no/such/simulator", ["simulator"])


def leave_with_sys_exit() -> None:
    sys.exit(0)


def log_and_print() -> None:
    for number in range(2000):
        logging.getLogger("simulator").warning("the child says %d", number)
    print("the child prints")


WAYS_BACK = (return_from_it, fail_to_run_a_program, leave_with_sys_exit, log_and_print)


class ForkingEnv(gymnasium.Env[Any, Any]):
    """Forks once, in one of its methods, and lets the child come back. Writes down every step that it takes."""

    def __init__(self, index: int, forks_in: str, way_back: Callable[[], None], notes: Path | None = None) -> None:
        self.observation_space = spaces.Box(-1e9, 1e9, (2,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.index, self.forks_in, self.way_back, self.notes = index, forks_in, way_back, notes
        self.exit_code: int | None = None
        self.child = 0
        if forks_in == "construct":
            self.fork()

    def fork(self) -> None:
        self.child = os.fork()
        if self.child == 0:
            self.way_back()

    def note(self, what: str) -> None:
        if self.child:
            self.exit_code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
            self.child = 0
        if self.notes is not None:
            with self.notes.open("a") as file:
                file.write(f"{what} {self.index}\n")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        self.note("reset")
        if self.forks_in == "reset":
            self.fork()
        return np.zeros(2), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        self.note("step")
        if self.forks_in == "step" and self.count == FORKS_AT:
            self.fork()
        number = self.np_random.random()
        return np.array([self.count, number]), number, False, False, {"count": self.count}

    def ask(self) -> int:
        self.note("ask")
        if self.forks_in == "call":
            self.fork()
        return self.index

    def last_exit_code(self) -> int | None:
        self.note("look")
        return self.exit_code


class ForkingCoroutineEnv(ForkingEnv):
    """The child pauses before it comes back."""

    async def step(self, action: Any) -> Any:  # type: ignore[override]
        child = self.child
        result = super().step(action)
        if self.child != child:
            await asyncio.sleep(0)
        return result


def envs_of(
    notes: Path | None = None,
    way_back: Callable[[], None] = return_from_it,
    *,
    forks_in: str = "",
    kind: type[ForkingEnv] = ForkingEnv,
) -> list[Callable[[], ForkingEnv]]:
    return [functools.partial(kind, i, forks_in if i == 1 else "", way_back, notes) for i in range(4)]


def rollout(env_fns: Any, **keywords: Any) -> tuple[list[Any], list[int | None]]:
    """All that comes of some steps; and how each environment's child ended."""
    with shoal.make(env_fns, **{"start_method": "fork", "num_workers": 2, **keywords}) as envs:
        results: list[Any] = [envs.reset(seed=3)]
        results += [envs.step(np.zeros(4, int)) for _ in range(NUM_STEPS)]
        results.append(envs.call("ask"))
        results += [envs.step(np.zeros(4, int)) for _ in range(3)]
        return results, list(envs.call("last_exit_code"))


def check(capfd: pytest.CaptureFixture[str], notes: Path, found: Any, expected: Any) -> None:
    results, exit_codes = found
    assert difference(results, expected) == ""
    assert exit_codes == [None, 1, None, None]
    taken = notes.read_text().splitlines()
    assert all(taken.count(f"step {i}") == NUM_STEPS + 3 for i in range(4))
    output = capfd.readouterr()
    said = [line for line in output.err.splitlines() if line.startswith("shoal:")]
    assert len(said) == 1
    assert "which an environment forked from process" in said[0]
    assert "came back from the environment's code and was ended" in said[0]
    assert "the child must end itself with os._exit(), also if it raises" in said[0]
    assert "Traceback" not in output.err
    assert output.out in ("", "the child prints\n")


@pytest.mark.parametrize("way_back", WAYS_BACK, ids=lambda way: way.__name__)
@pytest.mark.parametrize("forks_in", ["construct", "reset", "step", "call"])
def test_a_child_that_comes_back_ends_and_the_rollout_is_the_same(
    process_backend: str, forks_in: str, way_back: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    expected, _ = rollout(envs_of(), backend="serial", num_workers=1)
    found = rollout(envs_of(tmp_path / "notes", way_back, forks_in=forks_in), backend=process_backend)
    check(capfd, tmp_path / "notes", found, expected)


@pytest.mark.parametrize("kind", [ForkingEnv, ForkingCoroutineEnv], ids=["threads", "coroutines"])
@pytest.mark.parametrize("way_back", [return_from_it, fail_to_run_a_program], ids=lambda way: way.__name__)
def test_also_where_environments_are_at_work_at_the_same_time(
    process_backend: str, kind: Any, way_back: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    expected, _ = rollout(envs_of(), backend="serial", num_workers=1)
    env_fns = envs_of(tmp_path / "notes", way_back, forks_in="step", kind=kind)
    threads = {"threads_per_worker": 2} if kind is ForkingEnv else {}
    check(capfd, tmp_path / "notes", rollout(env_fns, backend=process_backend, **threads), expected)


def test_also_on_the_threads_backend(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    expected, _ = rollout(envs_of(), backend="serial", num_workers=1)
    env_fns = envs_of(tmp_path / "notes", forks_in="step")
    check(capfd, tmp_path / "notes", rollout(env_fns, backend="threads", num_workers=4, start_method=None), expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_also_of_environments_that_are_received_one_by_one(
    process_backend: str, threads: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    env_fns = envs_of(tmp_path / "notes", forks_in="step")
    with shoal.make(
        env_fns, backend=process_backend, num_workers=2, start_method="fork", threads_per_worker=threads
    ) as envs:
        envs.reset(seed=3)
        for count in range(1, NUM_STEPS):
            envs.send(np.zeros(4, int), range(4))
            seen: dict[int, Any] = {}
            while len(seen) < 4:
                batch = envs.recv()
                seen.update(zip(batch.env_ids.tolist(), batch.observation[:, 0].tolist(), strict=True))
            assert seen == dict.fromkeys(range(4), count)
        assert list(envs.call("last_exit_code")) == [None, 1, None, None]
    assert capfd.readouterr().err.count("shoal:") == 1


class ChildOfItsOwnEnv(ForkingEnv):
    """Has a forked process that computes with the action, logs, and ends as it should."""

    def step(self, action: Any) -> Any:
        mine, its = multiprocessing.get_context("fork").Pipe()
        process = multiprocessing.get_context("fork").Process(target=self.compute, args=(its, action))
        process.start()
        answer = mine.recv()
        process.join()
        assert process.exitcode == 0
        mine.close()
        its.close()
        observation, _, *rest = super().step(action)
        return observation, answer, *rest

    def compute(self, its: Any, action: Any) -> None:
        logging.getLogger("simulator").warning("at work on %d", action)
        its.send(float(action) + self.count)


def test_a_child_with_work_of_its_own_is_left_alone(process_backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    with shoal.make(
        envs_of(kind=ChildOfItsOwnEnv), backend=process_backend, num_workers=2, start_method="fork"
    ) as envs:
        envs.reset(seed=3)
        for count in range(5):
            assert envs.step(np.array([0, 1, 0, 1]))[1].tolist() == [count, count + 1, count, count + 1]
    output = capfd.readouterr().err
    assert "came back" not in output
    assert output.count("at work on") == 20  # on standard error: the worker's socket is not the child's


class WritingEnv(ForkingEnv):
    """Its child goes on for a while on another thread's behalf, and writes into all that it has inherited."""

    def fork(self) -> None:
        self.child = os.fork()
        if self.child == 0:
            import shoal.vector.backends.worker as worker

            assert worker.HERE is not None
            worker.HERE._arena.reward[:] = 99.0
            worker.HERE._arena.observations[0][:] = 99.0
            for descriptor in (worker.HERE._post.channel_fd, worker.HERE._post.words_fd):
                os.write(descriptor, b"x" * 1000)
            os._exit(1)


def test_a_child_shares_no_memory_and_no_socket_with_its_worker(process_backend: str) -> None:
    expected, _ = rollout(envs_of(), backend="serial", num_workers=1)
    found, exit_codes = rollout(envs_of(kind=WritingEnv, forks_in="step"), backend=process_backend)
    assert difference(found, expected) == ""
    assert exit_codes == [None, 1, None, None]


def test_also_when_the_environment_has_closed_the_descriptor_of_the_memory(tmp_path: Path) -> None:
    expected, _ = rollout(envs_of(), backend="serial", num_workers=1)
    found, exit_codes = rollout(envs_of(kind=ClosingEnv, forks_in="step"), backend="shm")
    assert difference(found, expected) == ""
    assert exit_codes == [None, 1, None, None]


class ClosingEnv(WritingEnv):
    """Has closed the descriptors of memory that it shares."""

    def fork(self) -> None:
        import shoal.vector.backends.worker as worker

        assert worker.HERE is not None
        os.close(worker.HERE._post.arena_fd)
        os.close(worker.HERE._post.board_fd)
        super().fork()


def test_no_thread_is_left_waiting_in_a_child(tmp_path: Path) -> None:
    before = threading.active_count()
    rollout(envs_of(forks_in="step"), backend="threads", num_workers=4, start_method=None)
    assert threading.active_count() == before
