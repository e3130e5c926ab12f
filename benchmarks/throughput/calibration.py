"""How many turns of the work loop one microsecond of this machine holds."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.throughput.step_costs import work

_TURNS = 20_000
_TRIALS = 200


@dataclass(frozen=True)
class Calibration:
    """The price of work, measured once per run and used by every cell and rig of it."""

    turns_per_microsecond: float

    def turns(self, microseconds: float) -> int:
        return round(self.turns_per_microsecond * microseconds)


def calibrate() -> Calibration:
    """Time the work loop alone; call it before any rig is started."""
    seconds = []
    for _ in range(_TRIALS):
        start = time.perf_counter()
        work(_TURNS)
        seconds.append(time.perf_counter() - start)
    # Interruptions only ever make a trial slower: the fastest is the one an idle core gives.
    return Calibration(turns_per_microsecond=_TURNS / (min(seconds) * 1e6))
