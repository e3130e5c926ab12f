"""Starting, closing and ending: nothing hangs, nothing is left behind, nothing is said twice."""

from __future__ import annotations

import functools
import gc
import os
import signal
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import psutil
import pytest

import shoal
from shoal import ParallelEnv
from tests.conftest import WAYS_TO_START
from tests.envs import CountingEnv, HangingEnv, SlowEnv, counting


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
    envs = ParallelEnv([SlowEnv] * 2, backend=process_backend, start_method="fork")
    envs.reset()
    envs.step_async([2, 2])
    with pytest.warns(UserWarning, match="Calling `close` while waiting for a pending call to `step` to complete"):
        envs.close(terminate=terminate)


def test_close_is_bounded_when_an_environment_hangs(process_backend: str, caplog: pytest.LogCaptureFixture) -> None:
    envs = ParallelEnv([HangingEnv] * 2, backend=process_backend, num_workers=2, start_method="fork")
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
    with ParallelEnv(
        [lambda: NotingEnv(tmp_path / "closed")] * 3, backend=backend, num_workers=2, start_method="fork"
    ) as envs:
        envs.reset()
    assert (tmp_path / "closed").read_text() == "xxx"


def test_an_environment_that_raises_in_close_is_logged_and_the_others_are_closed(
    backend: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fns = [lambda: NotingEnv(tmp_path / "closed"), lambda: NotingEnv(tmp_path / "closed", grumpy=True)] * 2
    ParallelEnv(fns, backend=backend, num_workers=1, start_method="fork").close()
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


def test_two_threads_cannot_step_at_once(process_backend: str) -> None:
    with ParallelEnv([lambda: SlowEnv(9)] * 2, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=1)
        results: list[Any] = []
        first = threading.Thread(target=lambda: results.append(envs.step([2, 2])))
        first.start()
        while envs._session.pending is None:
            time.sleep(0.001)
        for call in (lambda: envs.step([1, 1]), envs.reset, lambda: envs.call("render"), lambda: envs.send([0], [0])):
            with pytest.raises(shoal.AlreadyPending, match="pending call to `step`"):
                call()
        first.join()
        assert results[0][0][:, 0].tolist() == [1, 1]
        assert envs.step([0, 0])[0][:, 0].tolist() == [2, 2]


WAYS_TO_CYCLE = [*WAYS_TO_START, ("threads", None), ("serial", None)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), WAYS_TO_CYCLE)
def test_many_cycles_leave_no_trace(name: str, method: str | None) -> None:
    check_cycles(name, method, 3 if method in ("spawn", "forkserver") else 40)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "method"), WAYS_TO_CYCLE)
def test_a_thousand_cycles_leave_no_trace(name: str, method: str | None) -> None:
    check_cycles(name, method, 1000)


def check_cycles(name: str, method: str | None, number: int) -> None:
    def cycle() -> None:
        with ParallelEnv([counting()] * 2, backend=name, start_method=method, num_workers=2) as envs:
            envs.reset()
            envs.step([0, 0])

    cycle()
    before = (len(os.listdir("/proc/self/fd")), threading.active_count(), psutil.Process().memory_info().rss)
    for _ in range(number):
        cycle()
    after = (len(os.listdir("/proc/self/fd")), threading.active_count(), psutil.Process().memory_info().rss)
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 8_000_000
    assert not psutil.Process().children(recursive=True)


class FatalEnv(CountingEnv):
    """What it does in its third step is done by whatever is told."""

    def __init__(self, deed: str) -> None:
        super().__init__()
        self.deed = deed

    def step(self, action: Any) -> Any:
        result = super().step(action)
        if self.count == 3 and self.deed == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.count == 3 and self.deed == "hangs":
            time.sleep(100)
        if self.count == 3 and self.deed == "raises":
            raise KeyError("no such key")
        return result


class HalfMadeEnv(FatalEnv):
    """Dies whenever it is made again, after it has been in use."""

    def __init__(self, folder: Path) -> None:
        super().__init__("dies")
        if (folder / "used").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        self.folder = folder

    def step(self, action: Any) -> Any:
        if self.count == 1:
            (self.folder / "used").touch()
        return super().step(action)


def shared_arenas() -> list[str]:
    """Descriptors and mappings of memory that this process shares with workers."""
    folder = Path("/proc/self/fd")
    links = [os.readlink(folder / name) for name in os.listdir(folder) if os.path.lexists(folder / name)]
    mapped = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in [*links, *mapped] if "shoal-" in line and "memfd" in line]


@pytest.mark.parametrize(
    ("deed", "keywords", "error"),
    [
        ("dies", {}, shoal.PoisonStep),
        ("dies again when it is made", {}, shoal.WorkerCrashLoop),
        ("hangs", {"step_timeout": 0.2}, shoal.WorkerTimeout),
        ("dies", {"on_fault": "raise"}, shoal.WorkerDied),
        ("raises", {}, KeyError),
    ],
)
@pytest.mark.parametrize("face", [ParallelEnv, shoal.EnvList])
def test_closing_gives_shared_memory_back_whoever_keeps_the_exception(
    deed: str, keywords: dict[str, Any], error: type[Exception], face: Any, tmp_path: Path
) -> None:
    env_fn = functools.partial(FatalEnv, deed) if "made" not in deed else functools.partial(HalfMadeEnv, tmp_path)
    envs = face([env_fn, *[counting(100)] * 3], backend="shm", num_workers=2, start_method="fork", **keywords)
    envs.reset(seed=1)
    assert shared_arenas()
    with pytest.raises(error) as caught:
        for _ in range(5):
            envs.step([0] * 4)
    envs.close()
    assert caught.value.__traceback__ is not None, "what it has seen is still referred to"
    assert shared_arenas() == []


def test_observations_without_a_copy_outlive_the_environments() -> None:
    with ParallelEnv([counting(100)] * 3, backend="shm", num_workers=2, start_method="fork", copy=False) as envs:
        envs.reset(seed=1)
        observation, *_ = envs.step([0] * 3)
        expected = observation.copy()
    gc.collect()
    assert observation.tolist() == expected.tolist()
    assert not [line for line in shared_arenas() if line.startswith("/memfd")], "no descriptor is needed for that"
    del observation
    gc.collect()
    assert shared_arenas() == []
