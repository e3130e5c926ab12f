"""An environment that has its own time for a step, and takes longer three times, is known for sure."""

from __future__ import annotations

import logging
import time
from typing import Any

import gymnasium
import pytest
from gymnasium import spaces

import shoal
from shoal.vector.errors import WorkerTimeout


class Sleeper(gymnasium.Env[Any, Any]):
    """Hangs when it is told to."""

    observation_space = action_space = spaces.Discrete(100)

    def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        if action == 99:
            time.sleep(600)
        return int(action), 1.0, False, False, {}


def sleepers(**keywords: Any) -> shoal.EnvList:
    return shoal.EnvList([Sleeper] * 4, backend="shm", num_workers=1, step_timeout=1.0, **keywords)


def test_it_is_given_up_without_further_tests(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "shoal.vector")
    with sleepers(on_fault="truncate") as envs:
        envs.reset(seed=0)
        envs.send([1, 99, 2, 99])
        batch = envs.recv(env_ids=[0, 1, 2, 3])
        assert batch.truncated == [False, True, False, True]
        assert [info["fault"]["kind"] for info in batch.info if info] == ["hung", "hung"]
        assert envs.stats.restarts == 6  # three for each
        assert envs.stats.lost_episodes == 2


def test_it_is_named_in_the_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "shoal.vector")
    with sleepers() as envs:
        envs.reset(seed=0)
        envs.send([1, 2, 99, 3])
        with pytest.raises(WorkerTimeout, match="environment 2 has again and again taken too long in the same step"):
            envs.recv(env_ids=[0, 1, 2, 3])
