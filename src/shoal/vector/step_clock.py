"""The time in which environments step, and what they do with it."""

from __future__ import annotations

import time
from typing import NamedTuple


class Moment(NamedTuple):
    """What some clocks show."""

    wall: float
    processors: float
    """Of all threads of this process."""
    thread: float
    queueing: float
    """In which this thread could have computed and had no processor."""


class StepClock:
    """Runs while environments step."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin to count anew."""
        self.seconds = 0.0
        """In which the thread that steps had a processor, or did not want one."""
        self.processor_seconds = 0.0
        """Of all processors together, so that it may be more than ``seconds``."""
        self.waiting_seconds = 0.0
        """In which the thread that steps did not want a processor."""

    def __enter__(self) -> None:
        self._begin = _now()

    def __exit__(self, *_: object) -> None:
        wall, processors, thread, queueing = (end - begin for end, begin in zip(_now(), self._begin, strict=True))
        self.seconds += max(0.0, wall - queueing)
        self.processor_seconds += processors
        self.waiting_seconds += max(0.0, wall - thread - queueing)


def _now() -> Moment:
    return Moment(time.perf_counter(), time.process_time(), time.thread_time(), _queueing())


def _queueing() -> float:
    """Linux knows for how long a thread has waited for a processor; elsewhere it does not count."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
