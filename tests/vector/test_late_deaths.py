"""An environment whose process dies a moment after its step, when others are at work, is found, and only its episodes end."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import shoal
from shoal import ParallelEnv

NUM_ENVS = 6
STEPS = 34
AT_ONCE, CLOSES = -1.0, -2.0
"""Instead of a delay: the step itself ends the process, or closes descriptors that are not its own."""


class LingeringEnv(gymnasium.Env[Any, Any]):
    """Takes a millisecond for a step. In one step of each episode it starts a thread that ends the process after a while."""

    observation_space = spaces.Box(-1e9, 1e9, (2,), np.float64)
    action_space = spaces.Discrete(2)
    steps_of_all = 0

    def __init__(self, delay: float | None = None, *, counts_all: bool = False) -> None:
        self.delay, self.counts_all = delay, counts_all

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(2), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        LingeringEnv.steps_of_all += self.counts_all
        time.sleep(0.001)
        if self.delay is None or self.count != 6:
            pass
        elif self.delay == AT_ONCE:
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.delay == CLOSES:
            os.closerange(3, 200)
        else:
            threading.Timer(self.delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
        observation = np.array([self.count, self.np_random.random()])
        return observation, float(LingeringEnv.steps_of_all), False, self.count >= 15, {}


def play(envs: ParallelEnv, steps: int) -> list[Any]:
    return [envs.reset(seed=1), *(envs.step([0] * NUM_ENVS) for _ in range(steps))]


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0002, 0.02])
@pytest.mark.parametrize("guilty", [1, 2])
def test_the_guilty_one_is_found_and_the_others_lose_nothing(process_backend: str, guilty: int, delay: float) -> None:
    check_that_only_these_lose_episodes([guilty], delay, process_backend)


@pytest.mark.parametrize("guilty", [[0, 1], pytest.param([0, 1, 2, 4], marks=pytest.mark.slow)])
def test_all_that_end_their_worker_in_the_same_step_are_found(process_backend: str, guilty: list[int]) -> None:
    check_that_only_these_lose_episodes(guilty, AT_ONCE, process_backend, steps=8)


@pytest.mark.slow
def test_several_that_end_their_worker_a_moment_after_the_same_step_are_found(process_backend: str) -> None:
    check_that_only_these_lose_episodes([0, 2], 0.002, process_backend, steps=12)


def check_that_only_these_lose_episodes(guilty: list[int], delay: float, backend: str, steps: int = STEPS) -> None:
    env_fns: list[Any] = [functools.partial(LingeringEnv, delay if row in guilty else None) for row in range(NUM_ENVS)]
    with ParallelEnv(env_fns, backend=backend, num_workers=2, start_method="fork", on_fault="truncate") as envs:
        found = play(envs, steps)
        assert envs.stats.lost_episodes >= len(guilty)
    with ParallelEnv([LingeringEnv] * NUM_ENVS, backend="serial") as plain:
        expected = play(plain, steps)
    faults = np.zeros(NUM_ENVS, np.int64)
    for number, (results, right) in enumerate(zip(found, expected, strict=True)):
        for part, its in zip(results[:-1], right[:-1], strict=True):
            assert np.array_equal(np.delete(part, guilty, 0), np.delete(its, guilty, 0)), f"step {number}"
        faults += results[-1].get("_fault", np.zeros(NUM_ENVS, np.bool_))
    assert sorted(np.flatnonzero(faults)) == guilty, "an innocent one was ended, or a guilty one was not"
    for row in guilty:
        assert faults[row] == sum(bool(step[3][row]) and "fault" in step[4] for step in found[1:])


def test_what_happens_after_a_worker_closed_its_connection_accuses_no_environment(
    process_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on for a moment, with environments that have nothing to do with it."""
    monkeypatch.setattr("shoal.vector.backends.processes.ProcessBackend.progress", lambda *_: 1)
    env_fns: list[Any] = [functools.partial(LingeringEnv, CLOSES), LingeringEnv, LingeringEnv]
    with ParallelEnv(env_fns, backend=process_backend, num_workers=1, start_method="fork") as envs:
        envs.reset(seed=1)
        with pytest.raises(shoal.WorkerCrashLoop, match=r"closed its connection to this process") as caught:
            for _ in range(10):
                envs.step([0] * 3)
        assert not isinstance(caught.value, shoal.PoisonStep)


def test_without_truncation_the_error_names_it(process_backend: str) -> None:
    env_fns: list[Any] = [LingeringEnv, functools.partial(LingeringEnv, 0.0002), LingeringEnv, LingeringEnv]
    with ParallelEnv(env_fns, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=1)
        with pytest.raises(
            shoal.PoisonStep,
            match=r"environment 1 has ended its worker \d+ times in the same step or right after it, at last alone",
        ):
            for _ in range(10):
                envs.step([0] * 4)


def test_environments_that_share_something_are_brought_back_together_all_the_same(process_backend: str) -> None:
    """Careful replays, environment by environment, do not come to the same results, and are not insisted on."""
    env_fns = [
        functools.partial(LingeringEnv, counts_all=True),
        functools.partial(LingeringEnv, 0.0002, counts_all=True),
    ]
    with ParallelEnv(env_fns, backend=process_backend, num_workers=1, start_method="fork") as envs:
        envs.reset(seed=1)
        with pytest.raises(shoal.WorkerCrashLoop):
            for _ in range(10):
                envs.step([0] * 2)


def test_deadlines_leave_time_for_the_pauses(process_backend: str) -> None:
    env_fns: list[Any] = [LingeringEnv, functools.partial(LingeringEnv, 0.0002), LingeringEnv]
    with ParallelEnv(
        env_fns,
        backend=process_backend, num_workers=1, start_method="fork", on_fault="truncate", timeouts={"step": 20.0},
    ) as envs:  # fmt: skip
        envs.reset(seed=1)
        for _ in range(8):
            *_, info = envs.step([0] * 3)
            assert not np.delete(info.get("_fault", np.zeros(3, np.bool_)), 1).any()
        assert envs.stats.lost_episodes == 1
