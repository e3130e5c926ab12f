"""What a run beside busy processes found, and how good it had to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.throughput.calibration import Calibration
from benchmarks.throughput.comparing import best_peer
from benchmarks.throughput.machine import Machine
from benchmarks.throughput.plan import BusyPlan
from benchmarks.throughput.ratios import Ratio, ratio_of_medians
from benchmarks.throughput.results import RigResult
from benchmarks.throughput.rigs.catalogue import DEFAULT

WORKERS, THEIR_LIKE = "shoal-shm", "gymnasium-async"
"""Shoal on worker processes is held against the peer that has a process for each environment and shared memory, too."""
WORKERS_TARGET = 0.95


def target(busy: int) -> float:
    """What share of the best peer's speed Shoal's default must have beside so many busy processes."""
    if busy <= 1:
        return 0.95
    return 0.9 if busy == 2 else 0.85


@dataclass(frozen=True)
class BusyCell:
    """One cell beside one number of busy processes."""

    cell: str
    busy: int
    rigs: tuple[RigResult, ...]
    best_peer: str | None
    default_to_best_peer: Ratio | None
    workers_to_their_like: Ratio | None

    @classmethod
    def of(cls, cell: str, busy: int, rigs: Sequence[RigResult]) -> BusyCell:
        by_name = {rig.name: rig for rig in rigs if rig.rates}
        best = best_peer(rigs, "lockstep")
        return cls(
            cell,
            busy,
            tuple(rigs),
            best.name if best else None,
            _ratio(by_name.get(DEFAULT.name), best),
            _ratio(by_name.get(WORKERS), by_name.get(THEIR_LIKE)),
        )

    def rig(self, name: str) -> RigResult:
        return next(rig for rig in self.rigs if rig.name == name)


@dataclass(frozen=True)
class BusyRun:
    command: str
    started: str
    """UTC, ISO 8601."""
    seconds: float
    machine: Machine
    versions: dict[str, str]
    calibration: Calibration
    plan: BusyPlan
    cells: tuple[BusyCell, ...]


def _ratio(ours: RigResult | None, theirs: RigResult | None) -> Ratio | None:
    return None if ours is None or theirs is None else ratio_of_medians(ours.rates, theirs.rates)
