"""When there are no processes to be had: environments that have not begun run in the caller's own, others wait."""

from __future__ import annotations

import errno
import functools
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import shoal
from shoal import EnvList, ParallelEnv
from shoal.vector.backends import launch
from tests.comparing import difference, rollout
from tests.envs import CountingEnv, DyingEnv, WalkingEnv
from tests.vector.test_descriptors import kill


def refuse(*_: Any) -> None:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def test_auto_goes_on_in_this_process_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.ForkLauncher, "launch", refuse)
    with pytest.warns(RuntimeWarning, match="all environments run in this process, .* could not be started") as warned:
        envs = ParallelEnv([WalkingEnv] * 4, num_workers=2, start_method="fork")
    assert len([each for each in warned if "copies this process" not in str(each.message)]) == 1
    with envs, ParallelEnv([WalkingEnv] * 4, backend="serial") as plain:
        assert envs.plan.backend == "serial"
        assert "no worker process could be started" in envs.plan.reason
        assert not difference(rollout(envs, 20), rollout(plain, 20))


def test_a_backend_that_was_asked_for_is_not_replaced(process_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.ForkLauncher, "launch", refuse)
    with pytest.raises(shoal.CannotStart, match="worker 0 of 2 could not be started: .*temporarily unavailable"):
        ParallelEnv([WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork")


@pytest.mark.parametrize("on_fault", ["restore", "truncate"])
@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
def test_a_worker_that_cannot_be_replaced_now_is_replaced_when_it_can_be(
    process_backend: str, mode: AutoresetMode, on_fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(envs: ParallelEnv, disturb: bool) -> list[Any]:
        results: list[Any] = [envs.reset(seed=3)]
        ended = np.zeros(6, np.bool_)
        for number in range(30):
            if mode is AutoresetMode.DISABLED and ended.any():
                results.append(envs.reset(options={"reset_mask": ended}))
            actions = [(number + row) % 3 for row in range(6)]
            if disturb and number in (7, 15):
                kill(envs.worker_pids[number // 8])
                with monkeypatch.context() as patch:
                    patch.setattr(launch.ForkLauncher, "launch", refuse)
                    for _ in range(2):
                        with pytest.raises(shoal.CannotStart) as caught:
                            envs.step(actions)
                said = str(caught.value)
            results.append(envs.step_wait() if disturb and number == 15 else envs.step(actions))
            ended = results[-1][2] | results[-1][3]
        if disturb:
            assert said.startswith("worker 1 (pid ")
            assert "was killed by SIGKILL while in step(), at" in said.splitlines()[0]
            assert "  It cannot be replaced yet: worker 1 of 3 could not be started: the system refuses another" in said
            assert "  What to do: use fewer workers (num_workers=), end other programs, or raise the limit" in said
            assert "Nothing is lost by waiting: all other environments are intact." in said
            assert said.endswith("come from step_wait(), or from the same step() again.")
        return results

    with ParallelEnv(
        [WalkingEnv] * 6,
        backend=process_backend,
        num_workers=3,
        start_method="fork",
        autoreset_mode=mode,
        on_fault=on_fault,
    ) as envs:
        disturbed = play(envs, disturb=True)
        assert os.getpid() not in envs.worker_pids
        assert (envs.stats.restarts, envs.stats.lost_episodes) == (2, 0)
    with ParallelEnv([WalkingEnv] * 6, backend="serial", autoreset_mode=mode) as plain:
        assert not difference(disturbed, play(plain, disturb=False))


@pytest.mark.parametrize("on_fault", ["restore", "truncate"])
@pytest.mark.parametrize("backend", ["auto", "pipes", "shm"])
def test_an_environment_that_ends_its_worker_never_gets_into_this_process(
    backend: str, on_fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ParallelEnv([DyingEnv] * 4, backend=backend, num_workers=2, start_method="fork", on_fault=on_fault) as envs:
        envs.reset(seed=1)
        monkeypatch.setattr(launch.ForkLauncher, "launch", refuse)
        for _ in range(3):
            with pytest.raises(shoal.CannotStart, match="was killed by SIGKILL while in step"):
                envs.step([0, 0, 4, 0])
        monkeypatch.undo()
        if on_fault == "restore":
            with pytest.raises(shoal.PoisonStep, match="environment 2 has ended its worker 3 times"):
                envs.step([0, 0, 4, 0])
        else:
            *_, truncated, info = envs.step([0, 0, 4, 0])
            assert truncated.tolist() == [False, False, True, False]
            assert info["fault"]["kind"][2] == "died"


class TouchyEnv(CountingEnv):
    """Is killed where it is made, unless that is the caller's own process: then it leaves a mark."""

    def __init__(self, mark: Path, caller: int) -> None:
        super().__init__()
        if os.getpid() == caller:
            mark.touch()
        else:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("backend", ["auto", "pipes", "shm"])
def test_an_environment_that_ends_its_worker_when_it_is_made_is_not_made_here(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, launched = launch.ForkLauncher.launch, list[Any]()

    def launch_two(*arguments: Any) -> Any:
        if len(launched) == 2:
            refuse()
        launched.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(launch.ForkLauncher, "launch", launch_two)
    touchy = functools.partial(TouchyEnv, tmp_path / "made here", os.getpid())
    for make in (ParallelEnv, EnvList):
        launched.clear()
        with pytest.raises(shoal.WorkerDied, match=r"worker 1 .* was killed by SIGKILL while making env") as caught:
            make([CountingEnv, touchy], backend=backend, num_workers=2, start_method="fork")
        assert (
            "\n  It cannot be replaced: worker 1 of 2 could not be started: the system refuses another process"
            in str(caught.value)
        )
        assert str(caught.value).endswith("The environments were not made, and nothing is left of them.")
    assert not list(tmp_path.iterdir())


def test_environments_under_way_are_received_when_their_worker_can_be_replaced(
    process_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        ParallelEnv([WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork") as envs,
        ParallelEnv([WalkingEnv] * 4, backend="serial") as plain,
    ):
        assert not difference(envs.reset(seed=1), plain.reset(seed=1))
        kill(envs.worker_pids[0])
        with monkeypatch.context() as patch:
            patch.setattr(launch.ForkLauncher, "launch", refuse)
            envs.send([1] * 4)
            with pytest.raises(shoal.CannotStart):
                envs.recv(min_envs=4)
        batch = envs.recv(env_ids=range(4))
        assert not difference([*batch[1:]], [*plain.step([1] * 4)])


@pytest.mark.parametrize("num_parts", [2, 4])
def test_parts_go_on_when_their_worker_can_be_replaced(
    process_backend: str, num_parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(envs: ParallelEnv, disturb: bool) -> list[Any]:
        parts = envs.split(num_parts)
        given: list[Any] = [part.reset(seed=1) for part in parts]
        for number in range(8):
            with monkeypatch.context() as patch:
                if disturb and number in (3, 5):
                    patch.setattr(launch.ForkLauncher, "launch", refuse)
                    for pid in envs.worker_pids:
                        kill(pid)
                for part in parts:
                    part.step_async([number % 3] * part.num_envs)
                if disturb and number in (3, 5):
                    for part in parts:
                        with pytest.raises(shoal.CannotStart, match="It cannot be replaced yet"):
                            part.step_wait()
            given.extend(part.step_wait() for part in parts)
        return given

    with (
        ParallelEnv([WalkingEnv] * 8, backend=process_backend, num_workers=2, start_method="fork") as envs,
        ParallelEnv([WalkingEnv] * 8, backend="serial") as plain,
    ):
        assert not difference(play(envs, disturb=True), play(plain, disturb=False))


def test_a_planned_restart_that_is_not_possible_now_is_made_up_for(
    process_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        ParallelEnv(
            [CountingEnv] * 2, backend=process_backend, num_workers=1, start_method="fork", max_worker_episodes=2
        ) as envs,
        ParallelEnv([CountingEnv] * 2, backend="serial") as plain,
    ):
        assert not difference(envs.reset(seed=1), plain.reset(seed=1))
        for _ in range(3):
            assert not difference(envs.step([1, 2]), plain.step([1, 2]))
        with monkeypatch.context() as patch:
            patch.setattr(launch.ForkLauncher, "launch", refuse)
            with pytest.raises(
                shoal.CannotStart, match=r"worker 0 has ended.\n  It cannot be replaced yet: worker 0 of 1"
            ):
                envs.step([1, 2])
        for _ in range(8):
            assert not difference(envs.step([1, 2]), plain.step([1, 2]))
        assert envs.stats.restarts == 0
        assert envs.stats.planned_restarts >= 1


class HomelyEnv(CountingEnv):
    """Knows its process."""

    def process(self) -> int:
        return os.getpid()


@pytest.mark.parametrize("local", [[0], [2, 3], [5], [0, 2, 4], [1, 4]], ids=str)
def test_some_environments_can_stay_here(process_backend: str, local: list[int]) -> None:
    with (
        ParallelEnv(
            [HomelyEnv] * 6, backend=process_backend, num_workers=2, start_method="fork", in_process=local
        ) as envs,
        ParallelEnv([HomelyEnv] * 6, backend="serial") as plain,
    ):
        here = [row for row, pid in enumerate(envs.call("process")) if pid == os.getpid()]
        assert here == local
        assert not difference(rollout(envs, 12), rollout(plain, 12))
        os.kill(next(pid for pid in envs.worker_pids if pid != os.getpid()), signal.SIGKILL)
        assert not difference(rollout(envs, 12), rollout(plain, 12))


def test_different_worlds_can_stay_here_too(process_backend: str) -> None:
    with EnvList(
        [HomelyEnv, WalkingEnv, HomelyEnv], backend=process_backend, start_method="fork", in_process=[1]
    ) as envs:
        envs.reset(seed=0)
        assert len(envs.step([0, 1, 2]).rewards) == 3
        assert envs.worker_pids[1] == os.getpid()


def test_all_of_them_here_is_serial() -> None:
    with ParallelEnv([CountingEnv] * 2, backend="shm", in_process=[0, 1]) as envs:
        assert (envs.plan.backend, envs.worker_pids) == ("serial", ())


@pytest.mark.parametrize("wrong", [[2], [-1], ["a"], [True]], ids=str)
def test_who_stays_must_exist(wrong: list[Any]) -> None:
    with pytest.raises(
        shoal.ConfigurationError, match="in_process names environments from 0 to 1 that stay in this process"
    ):
        ParallelEnv([CountingEnv] * 2, backend="shm", in_process=wrong)
