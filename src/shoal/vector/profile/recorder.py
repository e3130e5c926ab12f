"""Who did what when.

A span is what somebody did from one moment to another. All processes of a machine have the same clock for that, so spans of
the caller and of workers can be laid side by side.
"""

from __future__ import annotations

import inspect
import threading
import time
from array import array
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from shoal.vector.layout import Array, Rows
from shoal.vector.overlap import Work

MOST_SPANS = 100_000
STAMP_SECONDS = 0.25e-6
"""What it costs to note when one environment has finished its step."""
COST_SHARE = 0.005
"""Of the time of a step, that may be spent on such notes."""


class Kind(IntEnum):
    """What somebody was doing. Of several at the same moment, the first here is what counts."""

    ENVIRONMENT = 0
    INFOS = 1
    COPYING = 2
    """Messages: packing and unpacking them."""
    SIGNALLING = 3
    WAITING = 4
    """For workers; what for, is seen when everybody's spans are laid side by side."""
    MANAGEMENT = 5
    BUSY = 6
    """At work on a command: what is not environments' is copying."""
    WINDOW = 7
    """Everything was being recorded."""


class Track(NamedTuple):
    """What one process, or thread, has recorded."""

    kinds: Array
    begins: Array
    """In nanoseconds."""
    ends: Array
    step_rows: Array
    """Environments whose single steps were timed, in that order."""
    step_nanoseconds: Array
    waiting_share: float
    """Of the time in which environments stepped: nothing was computed."""


class Recorder:
    """Takes down spans, and how long single environments' steps take. It is the clock of a slice, too."""

    def __init__(self) -> None:
        self.is_on = True
        # Arrays: thousands of numbers that are objects would be in the way of the memory that environments use.
        self._spans = array("q")
        self._rows: list[Rows] = []
        self._stamps: list[array[int]] = []
        self._looks = 0
        self._every = 1
        self._wall = self._computing = 0
        self._own = threading.local()

    @property
    def is_full(self) -> bool:
        """Whether nothing more is taken down: what there is says enough."""
        return self.num_spans >= MOST_SPANS

    @property
    def num_spans(self) -> int:
        """How many have been taken down."""
        return len(self._spans) // 3

    def note(self, kind: Kind, begin: int, end: int) -> None:
        """Take down a span."""
        self._spans.extend((kind, begin, end))

    def probe(self, owner: Any, name: str, kind: Kind) -> None:
        """Take down every call of this method of this object."""
        method, clock, number, note = getattr(owner, name), time.perf_counter_ns, int(kind), self._spans.extend

        def recorded(*args: Any, **keywords: Any) -> Any:
            if not self.is_on:
                return method(*args, **keywords)
            begin = clock()
            try:
                return method(*args, **keywords)
            finally:
                note((number, begin, clock()))

        setattr(owner, name, recorded)

    # -- the clock of a slice --------------------------------------------------------------------------------------------

    def __enter__(self) -> None:
        self._own.begin = time.perf_counter_ns() if self.is_on else 0
        self._own.computed = time.thread_time_ns() if self.is_on and self._is_sampled else 0

    def __exit__(self, *_: object) -> None:
        begin, computed = self._own.begin, self._own.computed
        if not begin:
            return
        end = time.perf_counter_ns()
        self.note(Kind.ENVIRONMENT, begin, end)
        if self.is_full:
            self.is_on = False
        if computed:
            self._wall += end - begin
            self._computing += time.thread_time_ns() - computed
        self._looks += 1

    @property
    def _is_sampled(self) -> bool:
        return self._looks % self._every == 0

    def watched(self, rows: Rows, actions: Iterable[Any]) -> Iterable[Any]:
        """The same actions; that each is asked for says when the step before it was over."""
        return self._stamped(rows, actions) if self.is_on and self._is_sampled else actions

    def _stamped(self, rows: Rows, actions: Iterable[Any]) -> Iterator[Any]:
        stamps = array("q")
        note, clock = stamps.append, time.perf_counter_ns
        for action in actions:
            note(clock())
            yield action
        note(clock())
        self._rows.append(rows)
        self._stamps.append(stamps)
        mean = (stamps[-1] - stamps[0]) / 1e9 / max(1, len(rows))
        self._every = max(1, round(STAMP_SECONDS / (COST_SHARE * max(mean, 1e-8))))

    def timed(self, rows: Rows, work: Work) -> Work:
        """The same work of environments that are at it at the same time, each timed."""
        if not self.is_on:
            return work

        def timed_work(number: int) -> Any:
            begin = time.perf_counter_ns()
            value = work(number)
            if not inspect.isawaitable(value):  # which is still to begin
                self._rows.append([rows[number]])
                self._stamps.append(array("q", (begin, time.perf_counter_ns())))
            return value

        return timed_work

    # -- what was recorded -----------------------------------------------------------------------------------------------

    def track(self) -> Track:
        """Everything that was taken down."""
        # Of a copy: an array cannot grow while somebody looks into its memory, and threads may be at work.
        spans = np.frombuffer(self._spans.tobytes(), np.int64).reshape(-1, 3)
        steps = [np.diff(stamps) for stamps in self._stamps]
        return Track(
            spans[:, 0],
            spans[:, 1],
            spans[:, 2],
            np.concatenate([np.asarray(rows, np.int64) for rows in self._rows] or [np.zeros(0, np.int64)]),
            np.concatenate(steps or [np.zeros(0, np.int64)]),
            1.0 - min(1.0, self._computing / self._wall) if self._wall else 0.0,
        )


def joined(earlier: Track, later: Track) -> Track:
    """What the same one has recorded at different times."""
    kinds, begins, ends, rows, durations = (np.concatenate(both) for both in zip(earlier[:-1], later[:-1], strict=True))
    return Track(kinds, begins, ends, rows, durations, max(earlier.waiting_share, later.waiting_share))


def remove_probes(owner: Any) -> None:
    """Let an object be as if it had never been probed."""
    for name, value in list(vars(owner).items()):
        if getattr(value, "__qualname__", "") == _RECORDED:
            delattr(owner, name)


_RECORDED = "Recorder.probe.<locals>.recorded"
