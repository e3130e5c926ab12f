"""When there are no processes to be had, environments run in the caller's own."""

from __future__ import annotations

import errno
import os
import signal
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import shoal
from shoal import EnvList, ParallelEnv
from shoal.vector.backends import launch
from tests.comparing import difference, rollout
from tests.envs import CountingEnv, WalkingEnv


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


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
def test_environments_whose_worker_cannot_be_replaced_go_on_here(
    process_backend: str, mode: AutoresetMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(envs: ParallelEnv, disturb: bool) -> list[Any]:
        results: list[Any] = [envs.reset(seed=3)]
        ended = np.zeros(6, np.bool_)
        for number in range(30):
            if mode is AutoresetMode.DISABLED and ended.any():
                results.append(envs.reset(options={"reset_mask": ended}))
            if disturb and number in (7, 15):
                os.kill(envs.worker_pids[number // 8], signal.SIGKILL)
            if number % 5 == 4:
                envs.send([1] * 6)
                ended = np.zeros(6, np.bool_)
                batch = envs.recv(min_envs=6)
                order = np.argsort(batch.env_ids)
                results.append([part[order] for part in batch[:5]])
                ended[batch.env_ids] = batch.terminated | batch.truncated
            else:
                step = envs.step([(number + row) % 3 for row in range(6)])
                results.append(step)
                ended = step[2] | step[3]
        return results

    with ParallelEnv(
        [WalkingEnv] * 6, backend=process_backend, num_workers=3, start_method="fork", autoreset_mode=mode
    ) as envs:
        monkeypatch.setattr(launch.ForkLauncher, "launch", refuse)
        with pytest.warns(RuntimeWarning, match="environments [02] to [13] go on in this process") as warned:
            disturbed = play(envs, disturb=True)
        assert len(warned) == 2
        assert envs.worker_pids.count(os.getpid()) == 2
    with ParallelEnv([WalkingEnv] * 6, backend="serial", autoreset_mode=mode) as plain:
        assert not difference(disturbed, play(plain, disturb=False))


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
