"""Is the machine steady? A short look at how fast its cores are, right before and right after a measurement.

    all frozen:  look ── even? ── thaw a rig ── measure ── freeze it ── look ── even, and as before? ── the rate counts
                  ▲        │ no                                              │ no
                  └────────┴─────────────────────────────────────────────────┘

On a shared machine a core can run at half its speed for a moment, and nothing in the system says so. An engine that waits
for all its workers then goes as slowly as the slowest core, while loops that never talk go on at the mean: a disturbed
comparison is not only noisy but wrong. And of two measurements one can meet a machine that is twice as fast as the other
does, so rates are given as they would be at the calibrated speed. The look depends on no rig; all are held to it alike.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import NamedTuple

from benchmarks.throughput.calibration import Calibration
from benchmarks.throughput.machine import usable_core_numbers
from benchmarks.throughput.step_costs import work

STEADY = 0.88
"""The slowest look at a core must show at least this share of the speed that the fastest shows."""
_LOOK_MICROSECONDS = 4000


class Rate(NamedTuple):
    """What was measured, and whether the machine was steady meanwhile."""

    value: float
    steady: bool


class Watch:
    """One process per usable core, asleep but for the few milliseconds of a look."""

    def __init__(self, calibration: Calibration) -> None:
        self._turns = calibration.turns(_LOOK_MICROSECONDS)

    def __enter__(self) -> Watch:
        context = multiprocessing.get_context("fork")
        self._lookouts: list[Connection] = []
        for core in usable_core_numbers():
            ours, theirs = context.Pipe()
            context.Process(target=_look_out, args=(theirs, core, self._turns), daemon=True).start()
            theirs.close()
            self._lookouts.append(ours)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for lookout in self._lookouts:
            lookout.send(False)
            lookout.close()

    def look(self) -> list[float]:
        """The speed of every core at this moment, all being busy, as a share of the calibrated speed."""
        for lookout in self._lookouts:
            lookout.send(True)
        return [_LOOK_MICROSECONDS / 1e6 / lookout.recv() for lookout in self._lookouts]

    def steady_rate(self, measure: Callable[[], float], patience: float, scaled: bool = True) -> Rate:
        """The first rate that was taken on a steady machine; after so many seconds without one, that on the steadiest.

        It is given at the calibrated speed, unless what was measured takes no longer on a slower core.
        """
        give_up = time.monotonic() + patience
        steadiest, value = -1.0, 0.0
        while steadiest < STEADY and (steadiest < 0 or time.monotonic() < give_up):
            looks = self._wait_until_even(give_up)
            rate = measure()
            looks += self.look()
            if _evenness(looks) > steadiest:
                steadiest, value = _evenness(looks), rate / statistics.mean(looks) if scaled else rate
        return Rate(value, steadiest >= STEADY)

    def _wait_until_even(self, give_up: float) -> list[float]:
        while _evenness(looks := self.look()) < STEADY and time.monotonic() < give_up:
            pass
        return looks


def _evenness(speeds: Sequence[float]) -> float:
    return min(speeds) / max(speeds)


def _look_out(connection: Connection, core: int | None, turns: int) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})
    while connection.recv():
        start = time.perf_counter()
        work(turns)
        connection.send(time.perf_counter() - start)
