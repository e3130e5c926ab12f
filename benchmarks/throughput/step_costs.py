"""What a step costs: an amount of computing or of waiting, for every step of every environment."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.throughput.cells import SLOWNESS, Spread

_DRAWS = 8
"""Costs that are drawn beforehand, for each environment; then they repeat. So few that every turn has all of them."""


def work(turns: int) -> int:
    """Keep the interpreter busy for a number of loop turns, and nothing else.

    Counting turns, not watching the clock, is what makes the comparison fair: a process that is
    pushed off its core has its work still to do when it comes back.
    """
    value = 1
    for _ in range(turns):
        value = (value * 5 + 3) & 0xFFFF
    return value


@dataclass(frozen=True)
class StepCost:
    """The mean cost of a step, and how it varies; either of computing or of waiting."""

    turns: int = 0
    """Of the work loop."""
    wait_seconds: float = 0.0
    spread: Spread = "even"
    slowness: int = SLOWNESS
    """Of the straggler, which is environment 0, compared with the others."""

    @property
    def spend(self) -> Callable[[Any], object] | None:
        """What is called with the amount of each step, if steps cost anything."""
        if self.wait_seconds:
            return time.sleep
        return work if self.turns else None

    def amounts(self, index: int) -> Iterator[float]:
        """What the steps of this environment cost, one after the other."""
        mean = self.wait_seconds or self.turns
        if self.spread == "exponential":
            draws = np.random.default_rng(index).exponential(size=_DRAWS)
            draws *= mean / draws.mean()
            return itertools.cycle(draws.tolist() if self.wait_seconds else draws.astype(int).tolist())
        if self.spread == "straggler" and index == 0:
            return itertools.repeat(mean * self.slowness)
        return itertools.repeat(mean)

    @property
    def cycle(self) -> int:
        """After so many steps costs repeat: whoever takes a multiple of that has as much to do as anybody else."""
        return _DRAWS if self.spread == "exponential" else 1

    def longest_share(self, num_envs: int) -> float:
        """How much of the work of a round the slowest environment has, on average."""
        if self.spread == "straggler":
            return self.slowness / (num_envs - 1 + self.slowness)
        return 1 / num_envs
