"""How long to measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """How often, and how long each time."""

    repeats: int
    ideal_seconds: float
    """What one repeat takes ideal; other rigs run as many rounds."""
    longest_seconds: float
    """A rig that would need longer than this for them runs fewer."""


FULL = Plan(repeats=9, ideal_seconds=0.4, longest_seconds=0.8)
QUICK = Plan(repeats=3, ideal_seconds=0.2, longest_seconds=0.2)
