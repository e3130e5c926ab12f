"""Environments whose steps cost what is said, on a clock that is made up."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.vector import step_clock
from shoal.vector.auto import autopilot, comparison, trial, watch
from shoal.vector.auto.comparison import Comparison
from shoal.vector.auto.watch import Watch
from tests.envs import WalkingEnv

NOW = [0.0, 0.0, 0.0, 0.0]
"""What the clocks show: wall, processors, thread, queueing. Only environments let time pass, not the machine."""

CLOSE: dict[str, Any] = {"computing": 30e-6}
"""With eight of these, a step of all takes 240 µs at home, and workers should be a little quicker."""


class CostlyEnv(WalkingEnv):
    """Computes, or waits, for so many seconds in each step."""

    made = 0

    def __init__(self, computing: float = 1e-6, waiting: float = 0.0, making: float = 0.0) -> None:
        super().__init__()
        CostlyEnv.made += 1
        self.computing, self.waiting = computing, waiting
        time.sleep(making)

    def step(self, action: Any) -> Any:
        NOW[0] += self.computing + self.waiting
        NOW[1] += self.computing
        NOW[2] += self.computing
        return super().step(action)


def make_up_time(monkeypatch: pytest.MonkeyPatch, company: list[int]) -> None:
    """Let time pass for environments alone, on an ordinary machine, beside so many others (the first of the list)."""
    for name in ("_begin", "_end"):
        monkeypatch.setattr(step_clock, name, lambda: step_clock.Moment(*NOW))
    monkeypatch.setattr(step_clock, "_wall", lambda: NOW[0])
    monkeypatch.setattr(trial, "others_running", lambda: company[0])
    monkeypatch.setattr(watch, "others_running", lambda: company[0])
    monkeypatch.setattr(autopilot, "others_running", lambda: company[0])
    monkeypatch.setattr(trial, "slowness", lambda: 1.0)
    monkeypatch.setattr(comparison, "slowness", lambda: 1.0)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge after few steps, and do not pause."""
    monkeypatch.setattr(comparison, "SETTLING_SECONDS", 0.0)
    monkeypatch.setattr(comparison, "WINDOW_SECONDS", 0.0)
    monkeypatch.setattr(comparison, "FEW_STEPS", 5)
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(watch, "FEW_STEPS", 5)
    monkeypatch.setattr(watch, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(watch, "LONGEST_PAUSE", 0.0)


def let_steps_take(monkeypatch: pytest.MonkeyPatch, in_workers: list[float], here: list[float]) -> None:
    """Whatever steps take, they are taken to take what is first in these lists."""
    note_there, note_here = Comparison.note, Watch.note
    monkeypatch.setattr(Comparison, "note", lambda self, _: note_there(self, in_workers[0]))
    monkeypatch.setattr(Watch, "note", lambda self, _: note_here(self, here[0]))


def step_until(envs: shoal.ParallelEnv, backend: str, most: int = 3000) -> list[Any]:
    """Step until they run there; returns the results."""
    results: list[Any] = []
    for number in range(most):
        if envs.plan.backend == backend and not envs._is_undecided:
            return results
        results.append(envs.step([number % 3] * envs.num_envs))
        time.sleep(0.001)
    raise AssertionError(f"they are not on {backend}: {envs.plan}")


def play_until_decided(envs: shoal.ParallelEnv, most: int = 400) -> list[Any]:
    """Results of steps until it is decided where environments run, and of twenty more."""
    random = np.random.default_rng(0)
    results: list[Any] = [envs.reset(seed=3)]
    for _ in range(most):
        if not envs._is_undecided:
            break
        results.append(envs.step(random.integers(3, size=envs.num_envs)))
    results.extend(envs.step(random.integers(3, size=envs.num_envs)) for _ in range(20))
    return results


def same_played(keywords: dict[str, Any], num_envs: int, steps: int, **more: Any) -> list[Any]:
    """What :func:`play_until_decided` gives, from a plain loop."""
    random = np.random.default_rng(0)
    with shoal.make(CostlyEnv, num_envs, backend="serial", **keywords, **more) as envs:
        return [envs.reset(seed=3), *(envs.step(random.integers(3, size=num_envs)) for _ in range(steps))]
