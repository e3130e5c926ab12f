"""Whether workers were worth it: the steps after a move are timed, too.

What steps in workers will cost is a forecast, and machines differ: in how soon a process wakes up, in what caches share. Where
the forecast decides by little, it is held against what steps really take; and as what steps cost may have changed meanwhile,
they are then timed at home once more::

    at home ── moved ── looked at ──┬── stay in workers
                                    └── come back ── timed at home again ──┬── stay at home
                                                                           └── go to workers for good
"""

from __future__ import annotations

import statistics

from shoal.vector.forecast import slowness

SETTLING_SECONDS = 0.2
"""Of stepping, in which much is done for the first time."""
LOOKING_SECONDS = 0.3
"""All of it is over before workers are rehearsed, and soon enough to be done again at home."""
FEW_STEPS = 50
SECONDS_BETWEEN = 0.05
"""Two looks at how slow the machine is at this moment."""
WORTH_STAYING = 0.95
"""Of the time that a step takes at home. Workers take processors and memory, too."""
LONGEST_SECONDS = 1.0
"""For which the caller may be held up by what is to be done again at home."""


class SecondLook:
    """Times steps in workers."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._steps: list[float] = []
        self._slowness: list[float] = []

    def note(self, seconds: float) -> None:
        """A step of all environments has taken so long."""
        self._seconds += seconds
        if self._seconds < SETTLING_SECONDS:
            return
        if self._seconds > SETTLING_SECONDS + SECONDS_BETWEEN * len(self._slowness):
            self._slowness.append(slowness())
        self._steps.append(seconds)

    @property
    def is_over(self) -> bool:
        """Whether enough has been seen."""
        return self._seconds >= SETTLING_SECONDS + LOOKING_SECONDS and len(self._steps) >= FEW_STEPS

    @property
    def seconds(self) -> float:
        """How long a step takes in workers."""
        return statistics.median(self._steps)

    def is_quicker_than(self, at_home: float, slowness: float) -> bool:
        """Whether workers are worth it, if a step takes so long at home when the machine is so slow."""
        return self.seconds / statistics.median(self._slowness) < WORTH_STAYING * at_home / slowness
