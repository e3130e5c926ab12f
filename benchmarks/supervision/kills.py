"""One kill in the middle of a rollout: how much longer does the step take in which it is noticed and made good?"""

from __future__ import annotations

import os
import signal
import statistics
import time
from dataclasses import dataclass, field

import numpy as np

import shoal

NUM_ENVS, NUM_WORKERS = 64, 2
_USUAL_STEPS = 25


@dataclass
class KillResult:
    """Kills after so many steps, one in each rollout."""

    steps: int
    extra_seconds: list[float] = field(default_factory=list)
    """Of the step after the kill, compared with the median of the steps before."""
    seconds_lost: list[float] = field(default_factory=list)
    """As ``envs.stats`` has it."""
    replayed_steps: list[int] = field(default_factory=list)


def kill_once(result: KillResult, seed: int) -> None:
    """Roll out CartPole with random actions, and kill a worker."""
    random = np.random.default_rng(seed)
    with shoal.make(
        "CartPole-v1", num_envs=NUM_ENVS, backend="shm", num_workers=NUM_WORKERS, on_fault="restore"
    ) as envs:
        envs.reset(seed=seed)
        usual = [_timed_step(envs, random) for _ in range(result.steps)][-_USUAL_STEPS:]
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        # A kill takes effect when it likes: in this step, or in one of the next.
        seconds = [_timed_step(envs, random)]
        while envs.stats.restarts == 0 and len(seconds) < result.steps:
            seconds.append(_timed_step(envs, random))
        if envs.stats.restarts != 1:
            raise RuntimeError(f"a worker was killed, but {envs.stats.restarts} were replaced")
        result.extra_seconds.append(sum(seconds) - len(seconds) * statistics.median(usual))
        result.seconds_lost.append(envs.stats.seconds_lost)
        result.replayed_steps.append(envs.stats.replayed_steps)


def _timed_step(envs: shoal.ParallelEnv, random: np.random.Generator) -> float:
    actions = random.integers(2, size=NUM_ENVS)
    begin = time.perf_counter()
    envs.step(actions)
    return time.perf_counter() - begin
