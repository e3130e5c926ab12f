"""Whether workers are worth it: what steps take in them is held against what they would take at home, all the time.

What steps in workers will cost is a forecast, and machines differ and change: another program begins to compute, and steps in
workers take many times longer. So steps are timed in one *window* after the other. Where they stay slower than a loop at home,
environments come back, and leave again when that has changed (``watch.py``)::

    at home ── move ── window ── window ── ... ── slower ── move ── at home, watched ── move ── ...
                         └── plan.reason says what was measured
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence

from shoal.vector.auto.forecast import slowness
from shoal.vector.cpus import queueing_seconds

SETTLING_SECONDS = 0.2
"""Of stepping, in which much is done for the first time."""
WINDOW_SECONDS = 0.3
FEW_STEPS = 20
WORTH_RETURNING = 1.05
"""Times as long as at home, for several windows in a row ..."""
CLEARLY_SLOWER = 1.5
"""... or for one."""
NUM_WINDOWS = 2


class Comparison:
    """Times steps in workers."""

    def __init__(
        self, at_home: float, slowness_then: float, num_windows: int = NUM_WINDOWS, pids: Sequence[int] = ()
    ) -> None:
        """``pids``: of the processes that a step of all environments waits for."""
        self._at_home = at_home / slowness_then
        self._pids = pids
        self._queued: list[float] = []
        """For how long each has waited for a processor, until the window that is under way."""
        self.num_windows = num_windows
        """How many windows in a row have to be slower. More, if environments have come back before for nothing."""
        self._left_to_settle = SETTLING_SECONDS
        self._steps: list[float] = []
        self._seconds_in_window = 0.0
        self._num_slower = 0
        self.seconds = 0.0
        """How long a step took in the last window; zero before the end of the first."""
        self.is_slower = False
        """Whether workers have been slower than a loop at home for long enough."""

    def note(self, seconds: float) -> bool:
        """The caller has waited for so long for a step of all environments; returns whether a window has ended."""
        if self._left_to_settle > 0:
            self._left_to_settle -= seconds
            if self._left_to_settle <= 0:
                self._waited()
            return False
        self._steps.append(seconds)
        self._seconds_in_window += seconds
        if len(self._steps) < FEW_STEPS or self._seconds_in_window < WINDOW_SECONDS:
            return False
        typical, at_home_now = statistics.median(self._steps), self._at_home * slowness()
        mean = self._seconds_in_window / len(self._steps)
        # Beside other processes a few steps wait long for a processor, and most do not wait at all.
        self.seconds = typical + min(max(0.0, mean - typical), self._waited() / len(self._steps))
        self._steps, self._seconds_in_window = [], 0.0
        self._num_slower = self._num_slower + 1 if self.seconds > WORTH_RETURNING * at_home_now else 0
        self.is_slower = self._num_slower >= self.num_windows or typical > CLEARLY_SLOWER * at_home_now
        return True

    def _waited(self) -> float:
        """For how long the caller, and who has waited longest among the workers, had no processor in this window."""
        before, self._queued = self._queued, [queueing_seconds(pid) for pid in (os.getpid(), *self._pids)]
        if not before:
            return 0.0
        caller, *workers = (now - then for now, then in zip(self._queued, before, strict=True))
        return max(0.0, caller + max(workers, default=0.0))
