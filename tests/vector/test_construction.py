"""Workers that die or hang while their environments are made, prepared, or reset for the first time."""

from __future__ import annotations

import errno
import functools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal import EnvError, EnvList, ParallelEnv, WorkerDied, WorkerTimeout
from shoal.vector import verdicts
from shoal.vector.backends import crew
from shoal.vector.backends.shared_buffer import SharedBuffer
from shoal.vector.backends.worker import Worker
from tests.comparing import difference, rollout
from tests.envs import WalkingEnv
from tests.vector.test_resources import failing_after
from tests.vector.test_restore import asleep, broken, gone, killed, stopped

METHODS = ("fork", "forkserver", "spawn")


class FragileEnv(WalkingEnv):
    """Harms its process when it is made, so many times; files remember how often."""

    def __init__(self, folder: str = "", times: int = 0, harm: Callable[[], None] = killed) -> None:
        super().__init__()
        for number in range(times):
            marker = Path(folder) / str(number)
            if not marker.exists():
                marker.touch()
                harm()
                break


def fragile(
    tmp_path: Path, row: int, times: int = 1, harm: Callable[[], None] = killed, num_envs: int = 4
) -> list[Any]:
    fns: list[Any] = [FragileEnv] * num_envs
    fns[row] = functools.partial(FragileEnv, str(tmp_path), times, harm)
    return fns


def check_rollout(envs: ParallelEnv) -> None:
    with ParallelEnv([WalkingEnv] * envs.num_envs, backend="serial") as plain:
        assert not difference(rollout(envs, 12), rollout(plain, 12))


@pytest.mark.parametrize("on_fault", ["restore", "truncate"])
@pytest.mark.parametrize("harm", [killed, gone, broken], ids=lambda harm: harm.__name__)
def test_a_constructor_that_ends_its_process_once_costs_nothing(
    process_backend: str, harm: Callable[[], None], on_fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fns = fragile(tmp_path, 2, harm=harm)
    with ParallelEnv(fns, backend=process_backend, num_workers=2, start_method="fork", on_fault=on_fault) as envs:
        check_rollout(envs)
        assert envs.stats.restarts == 1
    assert " while making environment 2.\n" in caplog.text
    assert "It is replaced, and its environments are made again." in caplog.text


@pytest.mark.parametrize("harm", [stopped, asleep], ids=lambda harm: harm.__name__)
def test_a_constructor_that_hangs_once_costs_its_deadline(
    process_backend: str, harm: Callable[[], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fns = fragile(tmp_path, 1, harm=harm)
    with ParallelEnv(
        fns, backend=process_backend, num_workers=2, start_method="fork", timeouts={"construct": 1.0}
    ) as envs:
        check_rollout(envs)
        assert envs.stats.restarts == 1
    assert "environment 1 took longer than 1 s (making its environments)" in caplog.text


@pytest.mark.parametrize("method", METHODS)
def test_however_workers_are_started(process_backend: str, method: str, tmp_path: Path) -> None:
    fns = fragile(tmp_path, 3, times=3)
    with ParallelEnv(fns, backend=process_backend, num_workers=2, start_method=method) as envs:
        check_rollout(envs)
        assert envs.stats.restarts == 3
        os.kill(envs.worker_pids[1], signal.SIGKILL)
        check_rollout(envs)
        assert envs.stats.restarts == 4


def test_all_of_them_may_die(process_backend: str, tmp_path: Path) -> None:
    folders = [tmp_path / str(row) for row in range(4)]
    for folder in folders:
        folder.mkdir()
    fns = [functools.partial(FragileEnv, str(folder), 2) for folder in folders]
    with ParallelEnv(fns, backend=process_backend, num_workers=4, start_method="fork") as envs:
        check_rollout(envs)
        assert envs.stats.restarts == 8


def test_lists_of_worlds_and_auto_go_through_the_same(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("list", "auto")]
    for folder in folders:
        folder.mkdir()
    with EnvList(fragile(folders[0], 1), backend="shm", num_workers=2, start_method="fork") as envs:
        envs.reset(seed=1)
        assert len(envs.step([1] * 4).rewards) == 4
        assert envs.stats.restarts == 1
    # With a number of workers, environments are made in these from the first.
    with ParallelEnv(fragile(folders[1], 1), backend="auto", num_workers=2, on_fault="restore") as batched:
        assert batched.plan.backend == "shm"
        assert batched.stats.restarts == 1
        check_rollout(batched)


class PatientEnv(WalkingEnv):
    """Is made when a file is there."""

    def __init__(self, file: str) -> None:
        super().__init__()
        while not os.path.exists(file):
            time.sleep(0.01)


class KillerEnv(WalkingEnv):
    """Kills another worker, which has been made and has nothing to do, once; then a third may be made."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        pid, done = Path(folder) / "pid", Path(folder) / "done"
        while not pid.exists():
            time.sleep(0.01)
        if not (Path(folder) / "struck").exists():
            (Path(folder) / "struck").touch()
            time.sleep(0.3)  # until it has answered, most likely: else it is killed while it makes its environment
            os.kill(int(pid.read_text()), signal.SIGKILL)
            time.sleep(0.1)
        done.touch()


class VictimEnv(WalkingEnv):
    """Says who it is, once."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        if not (Path(folder) / "pid").exists():
            (Path(folder) / "new").write_text(str(os.getpid()))
            (Path(folder) / "new").rename(Path(folder) / "pid")


def test_a_worker_that_dies_after_its_environments_were_made_makes_them_again(
    process_backend: str, tmp_path: Path
) -> None:
    folder = str(tmp_path)
    fns: list[Any] = [
        functools.partial(VictimEnv, folder),
        functools.partial(KillerEnv, folder),
        functools.partial(PatientEnv, f"{folder}/done"),
    ]
    with ParallelEnv(fns, backend=process_backend, num_workers=3, start_method="fork") as envs:
        check_rollout(envs)
        assert envs.stats.restarts == 1


def test_a_constructor_that_always_kills_is_an_error_that_names_it(process_backend: str, tmp_path: Path) -> None:
    with pytest.raises(WorkerDied) as caught:
        ParallelEnv(fragile(tmp_path, 2, times=1000), backend=process_backend, num_workers=2, start_method="fork")
    said = str(caught.value)
    count = verdicts.ALLOWANCE + 2 + 1
    assert "worker 1 (pid " in said
    assert "was killed by SIGKILL while making environment 2.\n  Likely cause: " in said
    assert "It ran environments 2 to 3 of 4." in said
    assert f"It was tried {count} times, and ended like this or in another way each time." in said
    assert len(list(tmp_path.iterdir())) == count


def test_a_constructor_that_always_hangs_is_an_error_that_names_it(process_backend: str, tmp_path: Path) -> None:
    with pytest.raises(
        WorkerTimeout, match=r"environment 2 took longer than 0.3 s \(making its environments\)"
    ) as caught:
        ParallelEnv(
            fragile(tmp_path, 2, times=1000, harm=asleep), backend=process_backend, num_workers=2, start_method="fork",
            timeouts={"construct": 0.3},
        )  # fmt: skip
    assert "It was tried 3 times, and ended like this or in another way each time." in str(caught.value)


def test_where_nothing_is_to_be_restored_the_first_death_is_an_error(process_backend: str, tmp_path: Path) -> None:
    with pytest.raises(WorkerDied, match="was killed by SIGKILL while making environment 2"):
        ParallelEnv(fragile(tmp_path, 2), backend=process_backend, num_workers=2, start_method="fork", on_fault="raise")


def refuse() -> None:
    raise ValueError("not with me")


def test_what_a_constructor_raises_is_an_error_at_once(process_backend: str, tmp_path: Path) -> None:
    def kill_then_refuse() -> None:
        if len(list(tmp_path.iterdir())) == 1:
            killed()
        refuse()

    with pytest.raises(EnvError, match="environment 2 while it was being made.*not with me"):
        ParallelEnv(
            fragile(tmp_path, 2, times=2, harm=kill_then_refuse),
            backend=process_backend, num_workers=2, start_method="fork",
        )  # fmt: skip
    assert len(list(tmp_path.iterdir())) == 2, "it was made twice, and no more"


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_a_worker_that_dies_while_it_is_prepared_is_replaced(
    process_backend: str, is_done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attach = Worker._attach

    def attach_and_die(worker: Any, payload: Any) -> None:
        if is_done:
            attach(worker, payload)
        if worker._post.worker == 1 and len(list(tmp_path.iterdir())) < 2:
            (tmp_path / str(os.getpid())).touch()
            killed()
        attach(worker, payload)

    monkeypatch.setattr(Worker, "_attach", attach_and_die)
    with ParallelEnv([WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork") as envs:
        check_rollout(envs)
        assert envs.stats.restarts == 2


class FirstResetEnv(WalkingEnv):
    """Harms its process in its first reset, twice."""

    def __init__(self, folder: Path, harm: Callable[[], None]) -> None:
        super().__init__()
        self.folder, self.harm = folder, harm

    def reset(self, **keywords: Any) -> Any:
        if (count := len(list(self.folder.iterdir()))) < 2:
            (self.folder / str(count)).touch()
            self.harm()
        return super().reset(**keywords)


@pytest.mark.parametrize("harm", [killed, asleep], ids=lambda harm: harm.__name__)
def test_a_worker_that_dies_in_the_first_reset_is_replaced(
    process_backend: str, harm: Callable[[], None], tmp_path: Path
) -> None:
    fns: list[Any] = [WalkingEnv, WalkingEnv, functools.partial(FirstResetEnv, tmp_path, harm), WalkingEnv]
    timeouts = {"reset": 0.5} if harm is asleep else None
    with ParallelEnv(fns, backend=process_backend, num_workers=2, start_method="fork", timeouts=timeouts) as envs:
        check_rollout(envs)
        assert envs.stats.restarts == 2


def test_a_replacement_for_which_no_descriptor_is_free_is_an_error_that_leaves_nothing(
    process_backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "SharedBuffer", failing_after(2, SharedBuffer, errno.EMFILE))
    with pytest.raises(shoal.WorkerDied, match="worker 1 .* while making environment 2") as caught:
        ParallelEnv(fragile(tmp_path, 2), backend=process_backend, num_workers=2, start_method="fork")
    assert "It cannot be replaced: worker 1 of 2 could not be started: no file descriptor is free" in str(caught.value)
    assert str(caught.value).endswith("The environments were not made, and nothing is left of them.")


class SleepyEnv(WalkingEnv):
    """Takes its time when it is called, if that is its way."""

    is_sleepy = False

    def nap(self, seconds: float) -> int:
        time.sleep(seconds if self.is_sleepy else 0.0)
        return os.getpid()


class VerySleepyEnv(SleepyEnv):
    """Always does."""

    is_sleepy = True


@pytest.mark.slow
def test_a_worker_that_has_been_brought_back_and_is_idle_is_not_late(process_backend: str) -> None:
    """It had a deadline for the replay, which is over."""
    with ParallelEnv(
        [SleepyEnv, VerySleepyEnv], backend=process_backend, num_workers=2, start_method="fork", timeouts={"step": 0.7}
    ) as envs:
        envs.reset(seed=1)
        envs.call_async("nap", 4.0)
        time.sleep(0.5)  # the first has answered
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        envs.call_wait()
        assert envs.stats.restarts == 1
