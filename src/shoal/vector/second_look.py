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
"""All of it is over before workers are rehearsed."""
MOST_ENV_STEPS = 8_000
"""Of all environments together, which have to be done again at home: each by itself, which costs more than the step."""
SETTLING_SHARE = 0.4
FEW_STEPS = 50
SECONDS_BETWEEN = 0.05
"""Two looks at how slow the machine is at this moment."""
LONGEST_SECONDS = 1.5
"""For which the caller may be held up by what is to be done again at home."""


class SecondLook:
    """Times steps in workers."""

    def __init__(self, num_envs: int) -> None:
        self._most = MOST_ENV_STEPS // num_envs
        self._taken, self._seconds = 0, 0.0
        self._steps: list[float] = []
        self._slowness: list[float] = []
        self._next_slowness = 0.0

    def note(self, seconds: float) -> None:
        """A step of all environments has taken so long."""
        self._taken += 1
        self._seconds += seconds
        if self._seconds < SETTLING_SECONDS and self._taken < SETTLING_SHARE * self._most:
            return
        if self._seconds >= self._next_slowness:
            self._slowness.append(slowness())
            self._next_slowness = self._seconds + SECONDS_BETWEEN
        self._steps.append(seconds)

    @property
    def is_over(self) -> bool:
        """Whether enough has been seen."""
        is_long_enough = self._seconds >= SETTLING_SECONDS + LOOKING_SECONDS or self._taken >= self._most
        return is_long_enough and len(self._steps) >= FEW_STEPS

    @property
    def seconds(self) -> float:
        """How long a step takes in workers."""
        return statistics.median(self._steps)

    def is_quicker_than(self, at_home: float, slowness: float) -> bool:
        """Whether workers are worth it, if a step takes so long at home when the machine is so slow."""
        return self.seconds / statistics.median(self._slowness) < at_home / slowness


def can_be_looked_at(num_envs: int) -> bool:
    """Whether so many can take enough steps and still come back soon."""
    return FEW_STEPS * num_envs <= (1 - SETTLING_SHARE) * MOST_ENV_STEPS
