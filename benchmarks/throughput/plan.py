"""How long to measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """How often, and how long each time."""

    repeats: int
    crowd_repeats: int
    """The same for a rig with a crowd of processes, which has to be started for each."""
    ideal_seconds: float
    """What one repeat takes ideal; other rigs run as many rounds. Short, because quiet moments can be."""
    longest_seconds: float
    """A rig that would need longer than this for them runs fewer."""
    patience_seconds: float
    """How long to try for a measurement on a steady machine, before another has to do."""


FULL = Plan(repeats=15, crowd_repeats=3, ideal_seconds=0.06, longest_seconds=0.15, patience_seconds=3.0)
QUICK = Plan(repeats=5, crowd_repeats=1, ideal_seconds=0.06, longest_seconds=0.1, patience_seconds=0.3)
