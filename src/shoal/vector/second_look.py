"""Whether workers were worth it: the steps after a move are timed, too.

What steps in workers will cost is a forecast, and machines differ: in how soon a process wakes up, in what caches share. Where
the forecast decides by little, it is held against what steps take when everybody has settled in, and environments come back
if a loop in the caller's process was quicker::

    moved ── settling in ── looked at ──┬── stay in workers
                                        └── come back: made again here, where they do again what was done
"""

from __future__ import annotations

import statistics

from shoal.vector.forecast import slowness

SETTLING_SECONDS = 1.5
"""Of stepping, in which rehearsals begin and much is done for the first time."""
LOOKING_SECONDS = 0.5
FEW_STEPS = 50
SECONDS_BETWEEN = 0.1
"""Two looks at how slow the machine is at this moment."""
WORTH_STAYING = 0.95
"""Of the time that a step takes here. Workers take processors and memory, too."""


class SecondLook:
    """Times steps in workers."""

    def __init__(self, here: float, slowness_then: float) -> None:
        self._here, self._slowness_then = here, slowness_then
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
    def there(self) -> float:
        """How long a step takes in workers."""
        return statistics.median(self._steps)

    @property
    def here(self) -> float:
        """How long it would take in the caller's process, as slow as the machine is now."""
        return self._here * statistics.median(self._slowness) / self._slowness_then

    @property
    def is_worth_it(self) -> bool:
        """Whether workers are quicker."""
        return self.there < WORTH_STAYING * self.here
