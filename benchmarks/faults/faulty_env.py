"""An environment that is deterministic, and does what its fault says when it is told to.

The fault is in the action and not in a counter, so that an environment that is made again and taken through its history
does the same. What may happen only once leaves a mark in the folder of the trial.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from benchmarks.faults.faults import FAULT_ACTION, FAULT_ENV, SLOW_SECONDS, Fault

FIRED = "fired"
"""The mark."""
HOSTS = "hosts"
"""Where environments write down the process they are in."""
SIZE = 6

Step = tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]


class FaultyEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Draws random numbers and adds up actions; an episode of environment ``index`` takes 12 + ``index`` steps."""

    def __init__(self, index: int, fault: Fault, folder: str) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SIZE,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(FAULT_ACTION + 1)
        self._index, self._fault, self._folder = index, fault, Path(folder)
        self._leaked: list[bytes] = []
        with (self._folder / HOSTS).open("a") as hosts:
            hosts.write(f"{os.getpid()}\n")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        self._sum = self.np_random.normal(size=SIZE)
        return self._sum.astype(np.float32), {}

    def step(self, action: np.int64 | int) -> Step:
        self._steps += 1
        self._sum += self.np_random.normal(size=SIZE) + int(action)
        observation = self._sum.astype(np.float32)
        if self._index == FAULT_ENV:
            observation = self._go_wrong(int(action), observation)
        # Eighths are the same in single and double precision.
        reward = int(self._sum[0] * 8) / 8
        return observation, reward, self._steps >= 12 + self._index, False, {}

    def _go_wrong(self, action: int, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._fault.leak is not None:
            self._leaked.append(b"x" * (self._fault.leak.megabytes * 1_000_000))
            time.sleep(self._fault.leak.step_seconds)
        elif action == FAULT_ACTION and self._fault.name in _DEEDS:
            is_first = fire(self._folder)
            if is_first or self._fault.repeats:
                _DEEDS[self._fault.name]()
        return observation[:-1] if self._fault.name == "shape" and action == FAULT_ACTION else observation


def fire(folder: Path) -> bool:
    """Leave the mark; returns whether nobody had."""
    try:
        os.close(os.open(folder / FIRED, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class LostSimulatorError(Exception):
    """Carries what belongs to this process, as exceptions of simulators do."""

    def __init__(self) -> None:
        super().__init__("lost the simulator")
        self.connection = threading.Lock()


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _segfault() -> None:
    ctypes.string_at(0)


def _exit() -> None:
    os._exit(0)


def _hang() -> None:
    time.sleep(3600)


def _hang_holding_the_gil() -> None:
    re.match(r"(a+)+$", "a" * 64 + "b")


def _spin() -> None:
    while True:
        pass


def _dawdle() -> None:
    time.sleep(SLOW_SECONDS)


def _raise() -> None:
    raise ValueError("out of fuel")


def _raise_unpicklable() -> None:
    raise LostSimulatorError


def _do_nothing() -> None:
    """For what shows in the result."""


_DEEDS: dict[str, Callable[[], None]] = {
    "kill-step": _kill,
    "segfault": _segfault,
    "segfault-always": _segfault,
    "exit": _exit,
    "hang": _hang,
    "hang-gil": _hang_holding_the_gil,
    "slow": _dawdle,
    "error": _raise,
    "error-unpicklable": _raise_unpicklable,
    "shape": _do_nothing,
    "parent-busy": _spin,
    "parent-gil": _hang_holding_the_gil,
}
