"""What a run found, as plain data that goes to JSON as it is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.throughput.calibration import Calibration
from benchmarks.throughput.machine import Machine
from benchmarks.throughput.plan import Plan
from benchmarks.throughput.rigs.catalogue import IDEAL, Role

_RESAMPLES = 2000
_INTERVAL = (0.025, 0.975)
_FEWEST_FOR_AN_INTERVAL = 3
_SUSPECT_SHARE = 0.2


@dataclass(frozen=True)
class Ratio:
    """A ratio with its 95 % interval, when there are enough repeats for one."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class RigResult:
    """One rig in one cell: its rates, or why there are none."""

    name: str
    library: str
    role: Role
    rounds: int | None
    """Rounds per repeat; a slow rig runs fewer than ideal does, so that its turn ends in time."""
    rates: tuple[float, ...]
    """Environment steps per second at the calibrated speed, one per repeat."""
    disturbed: int
    """Of these, how many were taken on an unsteady machine because no better moment came."""
    median: float | None = None
    ratio_to_ideal: Ratio | None = None
    ratio_to_best_peer: Ratio | None = None
    not_run: str | None = None


@dataclass(frozen=True)
class CellResult:
    name: str
    title: str
    step_microseconds: int
    turns: int
    num_envs: int
    observation_shape: tuple[int, ...]
    dtype: str
    pictured: bool
    best_peer: str | None
    best_shoal: str | None
    disturbed_share: float
    """Of all its measurements, how many were taken on an unsteady machine."""
    rigs: tuple[RigResult, ...]

    @property
    def suspect(self) -> bool:
        """Whether the machine was too busy for these numbers to mean anything."""
        return self.disturbed_share > _SUSPECT_SHARE


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

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")


def compare(rigs: tuple[RigResult, ...]) -> tuple[RigResult, ...]:
    """Fill in medians and ratios; rates of one repeat were taken side by side and stay paired."""
    with_medians = tuple(
        dataclasses.replace(rig, median=float(np.median(rig.rates))) if rig.rates else rig for rig in rigs
    )
    ideal = next(rig for rig in with_medians if rig.name == IDEAL.name)
    peer = best(with_medians, "peer")
    return tuple(
        dataclasses.replace(rig, ratio_to_ideal=_ratio(rig, ideal), ratio_to_best_peer=_ratio(rig, peer))
        for rig in with_medians
    )


def best(rigs: tuple[RigResult, ...], role: Role) -> RigResult | None:
    """The fastest rig of a role, if any of them ran."""
    ran = [rig for rig in rigs if rig.role == role and rig.median is not None]
    return max(ran, key=lambda rig: rig.median or 0.0, default=None)


def _ratio(rig: RigResult, reference: RigResult | None) -> Ratio | None:
    if not rig.rates or reference is None or not reference.rates:
        return None
    ours, theirs = np.array(rig.rates), np.array(reference.rates)
    value = float(np.median(ours) / np.median(theirs))
    if len(ours) < _FEWEST_FOR_AN_INTERVAL or len(ours) != len(theirs):
        return Ratio(value, None, None)
    # Paired bootstrap: the same repeats are drawn for both, as they shared the machine's mood.
    draws = _draws(len(ours))
    low, high = np.quantile(np.median(ours[draws], axis=1) / np.median(theirs[draws], axis=1), _INTERVAL)
    return Ratio(value, float(low), float(high))


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """The median of the ratios of pairs that were taken back to back: the closest look at a small difference."""
    ratios = np.array(ours) / np.array(theirs)
    value = float(np.median(ratios))
    if len(ratios) < _FEWEST_FOR_AN_INTERVAL:
        return Ratio(value, None, None)
    low, high = np.quantile(np.median(ratios[_draws(len(ratios))], axis=1), _INTERVAL)
    return Ratio(value, float(low), float(high))


def _draws(number: int) -> NDArray[np.int64]:
    """Which repeats each resample of a bootstrap consists of."""
    return np.random.default_rng(0).integers(number, size=(_RESAMPLES, number))
