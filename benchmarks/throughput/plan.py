"""How long to measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """How often, and how long each time."""

    repeats: int
    crowd_repeats: int
    """The same for a rig with a crowd of processes, which has to be started for each."""
    warm_up_seconds: float
    """Before the first. Trainings last for hours, so what happens in their first second hardly matters."""
    ideal_seconds: float
    """What one repeat takes ideal; other rigs run as many rounds. Short, because quiet moments can be."""
    longest_seconds: float
    """A rig that would need longer than this for them runs fewer."""
    patience_seconds: float
    """How long to try for a measurement on a steady machine, before another has to do."""
    startup_repeats: int
    """How often start-up is timed; 0 for not at all."""
    startup_rigs: tuple[str, ...]
    """Whose: Shoal as it comes, then Shoal and Gymnasium with the same start method."""


FULL = Plan(
    repeats=7,
    crowd_repeats=1,
    warm_up_seconds=2.0,
    ideal_seconds=0.06,
    longest_seconds=0.15,
    patience_seconds=0.6,
    startup_repeats=3,
    startup_rigs=("shoal-auto", "shoal-shm-fork", "gymnasium-async", "shoal-shm", "gymnasium-async-forkserver"),
)
QUICK = Plan(
    repeats=3,
    crowd_repeats=1,
    warm_up_seconds=0.1,
    ideal_seconds=0.06,
    longest_seconds=0.1,
    patience_seconds=0.2,
    startup_repeats=1,
    # Starting 200 of Gymnasium's processes from a server takes longer than a cell.
    startup_rigs=("shoal-auto", "shoal-shm-fork", "gymnasium-async"),
)


@dataclass(frozen=True)
class BusyPlan:
    """The same beside busy processes, where every turn starts the environments afresh."""

    repeats: int
    warm_up_seconds: float
    """From the first step on; whoever decides how to run must have done so by then."""
    turn_seconds: float


BUSY = BusyPlan(repeats=5, warm_up_seconds=3.0, turn_seconds=1.25)
QUICK_BUSY = BusyPlan(repeats=1, warm_up_seconds=1.0, turn_seconds=0.3)
