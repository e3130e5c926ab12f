"""What every contestant can do: start, run rounds and say how fast, close."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from benchmarks.throughput.work_env import Workload


class Rig(ABC):
    """A library set up to run a workload. A round steps every environment once.

    start(workload) ── measure(rounds) ── measure(rounds) ── … ── close() ── start(workload) ── …
    """

    @abstractmethod
    def start(self, workload: Workload) -> None:
        """Make the environments and reset them."""

    @abstractmethod
    def measure(self, rounds: int) -> float:
        """Run so many rounds; return environment steps per second."""

    @abstractmethod
    def close(self) -> None:
        """Leave no process behind; the rig can be started again."""


class LockstepRig(Rig):
    """A rig driven by one loop in this process, which the clock is held against."""

    num_envs: int

    def start(self, workload: Workload) -> None:
        self.num_envs = workload.num_envs
        self.open(workload)

    def measure(self, rounds: int) -> float:
        start = time.perf_counter()
        self.run(rounds)
        return rounds * self.num_envs / (time.perf_counter() - start)

    @abstractmethod
    def open(self, workload: Workload) -> None:
        """Make the environments and reset them."""

    @abstractmethod
    def run(self, rounds: int) -> None:
        """The loop a user of the library would write, with finished episodes reset."""
