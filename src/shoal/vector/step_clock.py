"""The time in which environments are at work, and what they do with it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol

from shoal.vector.cpus import queueing_seconds
from shoal.vector.layout import Rows
from shoal.vector.overlap import Work

UNTIMED = nullcontext()


class Clock(Protocol):
    """Runs while environments are at work."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def watched(self, rows: Rows, actions: Iterable[Any]) -> Iterable[Any]:
        """The same actions, for environments that step one after the other."""

    def timed(self, rows: Rows, work: Work) -> Work:
        """The same work, for environments that are at it at the same time."""


class Moment(NamedTuple):
    """What some clocks show."""

    wall: float
    processors: float
    """Of all threads of this process."""
    thread: float
    queueing: float
    """In which this thread could have computed and had no processor."""


class Spent(NamedTuple):
    """The time of some steps."""

    seconds: float = 0.0
    """In which the thread that steps had a processor, or did not want one."""
    processor_seconds: float = 0.0
    """Of all processors together, so that it may be more than ``seconds``."""
    waiting_seconds: float = 0.0
    """In which the thread that steps did not want a processor."""


class StepClock:
    """Runs while environments step."""

    def __init__(self) -> None:
        self._spent = Spent()
        self._single: dict[int, list[float]] = {}

    def take(self) -> Spent:
        """What has been counted since the last time."""
        spent, self._spent = self._spent, Spent()
        return spent

    def watched(self, rows: Rows, actions: Iterable[Any]) -> Iterator[Any]:
        """The same actions; that each is asked for says when the step before it was over."""
        stamps: list[float] = []
        for action in actions:
            stamps.append(_wall())
            yield action
        stamps.append(_wall())
        for row, (begin, end) in zip(rows, itertools.pairwise(stamps), strict=True):
            self._single.setdefault(row, []).append(end - begin)

    def single_steps(self, num_envs: int) -> list[tuple[float, ...]]:
        """How long each environment took, step by step; the first, in which much may be loaded, does not count."""
        if len(self._single) < num_envs:
            return []
        return list(zip(*(self._single[row] for row in range(num_envs)), strict=False))[1:]

    def timed(self, _rows: Rows, work: Work) -> Work:
        """As it is."""
        return work

    def __enter__(self) -> None:
        self._begin = _begin()

    def __exit__(self, *_: object) -> None:
        wall, processors, thread, queueing = (end - begin for end, begin in zip(_end(), self._begin, strict=True))
        seconds, so_far, waiting = self._spent
        self._spent = Spent(
            seconds + max(0.0, wall - queueing), so_far + processors, waiting + max(0.0, wall - thread - queueing)
        )


_wall = time.perf_counter


# To look at the other clocks takes as long as some steps of cheap environments, so the one that counts most is looked at last
# when it begins to run, and first when it stops.


def _begin() -> Moment:
    queueing, processors, thread = queueing_seconds("thread-self"), time.process_time(), time.thread_time()
    return Moment(_wall(), processors, thread, queueing)


def _end() -> Moment:
    return Moment(_wall(), time.process_time(), time.thread_time(), queueing_seconds("thread-self"))
