"""What a run found, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.startup.starts import StartRecord
from benchmarks.throughput.calibration import Calibration
from benchmarks.throughput.cells import Cell
from benchmarks.throughput.machine import Machine
from benchmarks.throughput.plan import Plan
from benchmarks.throughput.ratios import Ratio
from benchmarks.throughput.rigs.catalogue import DEFAULT, Role, Way

_SUSPECT_SHARE = 0.2


@dataclass(frozen=True)
class RigResult:
    """One rig in one cell: its rates, or why there are none."""

    name: str
    library: str
    role: Role
    way: Way
    rounds: int | None
    """Rounds per repeat; a slow rig runs fewer than ideal does, so that its turn ends in time."""
    rates: tuple[float, ...]
    """Environment steps per second, one per repeat; at the calibrated speed, unless steps wait."""
    disturbed: int
    """Of these, how many were taken on an unsteady machine because no better moment came."""
    median: float | None = None
    ratio_to_ideal: Ratio | None = None
    ratio_to_best_peer: Ratio | None = None
    remark: str | None = None
    """What it says of how it ran."""
    not_run: str | None = None


@dataclass(frozen=True)
class CellResult:
    name: str
    title: str
    cell: Cell
    turns: int
    """Of the work loop, in a step."""
    best_peer: str | None
    """Among those in lockstep."""
    best_peer_of_all: str | None
    """Whether it steps in lockstep or by halves."""
    disturbed_share: float
    """Of all its measurements, how many were taken on an unsteady machine."""
    seconds: float
    """How long the cell took to measure."""
    rigs: tuple[RigResult, ...]

    @property
    def suspect(self) -> bool:
        """Whether the machine was too busy for these numbers to mean anything."""
        return self.disturbed_share > _SUSPECT_SHARE

    @property
    def ran(self) -> list[RigResult]:
        """The rigs with numbers, the fastest first."""
        return sorted((rig for rig in self.rigs if rig.median is not None), key=lambda rig: -(rig.median or 0.0))

    @property
    def default(self) -> RigResult | None:
        """What a user of Shoal gets who chooses nothing, if it ran."""
        return self.rig(DEFAULT.name)

    def rig(self, name: str | None) -> RigResult | None:
        """The rig of this name, if it ran."""
        return next((rig for rig in self.ran if rig.name == name), None)


@dataclass(frozen=True)
class RunResult:
    command: str
    started: str
    """UTC, ISO 8601."""
    seconds: float
    machine: Machine
    versions: dict[str, str]
    calibration: Calibration
    plan: Plan
    cells: tuple[CellResult, ...]
    startup: tuple[StartRecord, ...]
