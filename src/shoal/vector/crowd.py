"""A crowd: something is done with each of some environments, one after the other or, where they wait, at the same time.

At the same time means: on threads (*lanes*), or, where ``step`` is a coroutine, on an event loop that all of them share.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from shoal.vector.interrupts import is_interruption
from shoal.vector.layout import Rows
from shoal.vector.overlap import EventLoop, Lanes, Overlap, Result, Work, attempt
from shoal.vector.patience import give_way

Progress = Any
"""Something indexable that others can read: [0] is the environment being worked on plus one, or zero."""

SHORT_SECONDS = 1e-4
"""Who gives way is out for much longer than this."""


class GivingWay:
    """Progress of somebody who lets others go first whenever he begins with another environment, if not very often."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._last = progress, 0.0

    def __setitem__(self, place: int, row: int) -> None:
        if perf_counter() - self._last > SHORT_SECONDS:
            give_way()
            self._last = perf_counter()
        self._progress[place] = row


class Crowd:
    """How the environments in these rows are called."""

    def __init__(self, rows: range, progress: Progress, *, in_process: bool, num_threads: int = 1) -> None:
        self.rows = rows
        self.progress = progress
        self._is_callers_process = in_process
        self._num_threads = min(num_threads, len(rows))
        self._lanes: Lanes | None = None
        self._events: EventLoop | None = None
        self._overlap: Overlap | None = None
        """How environments are called, where not one after the other."""

    def _start_threads(self) -> None:
        if self._num_threads > 1:
            self._overlap = self._lanes = Lanes(self._num_threads, "shoal-lane")

    def _await_coroutines(self) -> None:
        self._events = EventLoop("shoal-events")
        if self._lanes is not None:
            self._lanes.events = self._events
        else:
            self._overlap = self._events

    @property
    def overlaps(self) -> bool:
        """Whether several environments are at work at the same time."""
        return self._overlap is not None

    @property
    def only_lanes(self) -> Lanes | None:
        """The threads on which those are at work that are so at the same time, if none of them is a coroutine."""
        return self._lanes if self._overlap is self._lanes and self._events is None else None

    def lanes(self) -> Lanes:
        """A thread for each environment, or for a few of them."""
        if self._lanes is None:
            # Coroutines have one thread for all. Who waits for a single one of them needs another.
            self._lanes = Lanes(len(self.rows), "shoal-lane")
            self._lanes.events = self._events
        return self._lanes

    def _call_all(self, rows: Rows, work: Work, *, until_error: bool = False) -> list[Result]:
        """Do something with each of these environments; perhaps not with those after one that raised."""
        first, progress = self.rows.start, self.progress
        if self._overlap is not None:
            # Of several that are at work at the same time, nobody can say which one ends the process.
            progress[0] = rows[0] + 1 if len(rows) == 1 else 0
            results = self._overlap.run_all([row - first for row in rows], work)
        else:
            results = []
            for number, row in enumerate(rows):
                progress[0] = row + 1
                results.append(attempt(work, number, self._events))
                if results[-1].error is not None and until_error:
                    break
                self._let_pass(results[-1].error)
        for result in results:
            self._let_pass(result.error)
        progress[0] = 0
        return results

    def _let_pass(self, error: BaseException | None) -> None:
        """Raise what is not an environment's but the program's: it came while an environment was at work."""
        if error is not None and self._is_callers_process and is_interruption(error):
            raise error

    def _disperse(self) -> None:
        """End the threads."""
        for crowd in (self._lanes, self._events):
            if crowd is not None:
                crowd.close()
