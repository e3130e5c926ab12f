"""At home, ready to leave: whether workers have become worth it, because the machine is free again or steps cost more.

Where the first steps have shown that workers would pay on a quiet machine, environments that stay here for the time being
are written down, and one looks from time to time what others are doing.
"""

from __future__ import annotations

import statistics
import time
from collections import deque

from shoal.vector.auto.trial import Verdict
from shoal.vector.cpus import others_running

LOOK_SECONDS = 0.1
"""Between two looks at what others are doing ..."""
NUM_LOOKS = 5
"""... of which so many are needed."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds between two moves. Each that soon follows another makes it twice as long."""
PAUSE_AFTER_FAILURE = 5.0
"""At least, where a move had to be given up."""
LONG_STAY = 4.0
"""Times the pause: who has stayed for so long begins with the first pause again."""
DEARER = 1.3
"""Steps that take so many times as long as when they were judged are judged again."""
FEW_STEPS = 20


class Pace:
    """How long environments stay at least where they are: longer and longer, if they go to and fro."""

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE
        self._arrived_at = float("-inf")

    def note_move(self, now: float) -> None:
        """They have moved."""
        has_stayed = now - self._arrived_at > LONG_STAY * self._pause
        self._pause = FIRST_PAUSE if has_stayed else min(2 * self._pause, LONGEST_PAUSE)
        self._arrived_at = now

    def note_failure(self, now: float) -> None:
        """They could not move."""
        self._pause = min(max(2 * self._pause, PAUSE_AFTER_FAILURE), LONGEST_PAUSE)
        self._arrived_at = now

    def may_move(self, now: float) -> bool:
        """Whether they have stayed for long enough."""
        return now - self._arrived_at >= self._pause


class Watch:
    """Of environments in the caller's process."""

    def __init__(self, verdict: Verdict, in_workers: float | None = None, company: int = 0) -> None:
        """``in_workers``: how long a step has taken there, if they have come back because that was longer than here.

        ``company``: how many others were computing then.
        """
        self.verdict = verdict
        self._in_workers, self._company = in_workers, company
        self._looks: deque[int] = deque(maxlen=NUM_LOOKS)
        self._steps: deque[float] = deque(maxlen=101)
        self._next_look = time.perf_counter() + LOOK_SECONDS

    @property
    def is_due(self) -> bool:
        """Whether it is time to look."""
        return time.perf_counter() >= self._next_look

    def note(self, seconds: float) -> None:
        """A step of all environments has taken so long."""
        self._steps.append(seconds)

    def look(self) -> Verdict | None:
        """What is right now, if that is to leave."""
        self._next_look = time.perf_counter() + LOOK_SECONDS
        self._looks.append(others_running())
        if len(self._looks) < NUM_LOOKS:
            return None
        verdict = self.verdict.beside(round(statistics.median(self._looks)))
        if self.here > DEARER * verdict.here.seconds:
            verdict = verdict.costing(self.here / verdict.here.seconds)
        return verdict if verdict.choice.backend != "serial" and self._has_changed else None

    @property
    def here(self) -> float:
        """What a step takes in this process; zero where too few of all environments together have been taken."""
        return statistics.median(self._steps) if len(self._steps) >= FEW_STEPS else 0.0

    @property
    def has_come_for_nothing(self) -> bool:
        """Whether steps take longer here than they took in workers."""
        return self._in_workers is not None and self.here > self._in_workers

    @property
    def _has_changed(self) -> bool:
        """Whether it may be otherwise now than when they came back, if they did."""
        return self._in_workers is None or self.has_come_for_nothing or statistics.median(self._looks) < self._company
