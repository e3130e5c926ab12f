"""What every contestant can do: start, run rounds and say how fast, close."""

from __future__ import annotations

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.throughput.workload import Workload


class Rig(ABC):
    """A library set up to run a workload. A round is as many steps as there are environments.

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

    def remark(self) -> str | None:
        """What a reader should know of how it runs, if it was not said beforehand; asked when it has been warmed up."""
        return None


class LockstepRig(Rig):
    """Steps every environment once per round, in one loop in this process, which the clock is held against."""

    num_envs: int

    def start(self, workload: Workload) -> None:
        self.num_envs = workload.num_envs
        self._batches = itertools.cycle(workload.action_batches())
        self.open(workload)

    def measure(self, rounds: int) -> float:
        start = time.perf_counter()
        self.run(rounds)
        return rounds * self.num_envs / (time.perf_counter() - start)

    def next_actions(self, rounds: int) -> Iterator[NDArray[np.int64]]:
        """The actions of the next rounds."""
        return itertools.islice(self._batches, rounds)

    @abstractmethod
    def open(self, workload: Workload) -> None:
        """Make the environments and reset them."""

    @abstractmethod
    def run(self, rounds: int) -> None:
        """The loop a user of the library would write, with finished episodes reset."""


class HalvesRig(Rig):
    """Serves half of the environments at a time while the others work, and counts the steps of each.

    Who comes first is served first, so that environments may be stepped more or less often than others.
    """

    counted = slice(None)
    """Whose steps count."""
    num_envs: int

    def start(self, workload: Workload) -> None:
        self.num_envs = workload.num_envs
        self.half = max(1, self.num_envs // 2)
        self.counts = np.zeros(self.num_envs, dtype=np.int64)
        self.actions = workload.action_batches()[0]
        self.open(workload)

    def measure(self, rounds: int) -> float:
        self.counts[:] = 0
        todo = rounds * self.num_envs
        start = time.perf_counter()
        while todo > 0:
            env_ids = self.serve()
            self.counts[env_ids] += 1
            todo -= len(env_ids)
        return float(self.counts[self.counted].sum() / (time.perf_counter() - start))

    @abstractmethod
    def open(self, workload: Workload) -> None:
        """Make the environments, reset them and let all of them work."""

    @abstractmethod
    def serve(self) -> NDArray[np.int64]:
        """Take the results of half of them and let these work on; return who they were."""
