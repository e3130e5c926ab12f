"""Everybody in turn, again and again, so that whatever the machine does meanwhile is shared."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.throughput.watch import Watch


@dataclass
class Rates:
    """Steps per second, one for each turn."""

    values: list[float] = field(default_factory=list)
    disturbed: int = 0
    """Of these, how many were taken on an unsteady machine."""

    @property
    def median(self) -> float:
        return statistics.median(self.values)


def take_turns(
    measures: Sequence[Callable[[], float]], repeats: int, watch: Watch, patience_seconds: float
) -> list[Rates]:
    """The rates of each, at the calibrated speed of the machine."""
    found = [Rates() for _ in measures]
    for _ in range(repeats):
        for measure, rates in zip(measures, found, strict=True):
            rate = watch.steady_rate(measure, patience_seconds)
            rates.values.append(rate.value)
            rates.disturbed += not rate.steady
    return found
