"""What a run amounts to: in every cell, Shoal as it comes against the best of all peers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.throughput.ratios import Ratio
from benchmarks.throughput.results import CellResult, RigResult, RunResult

Verdict = Literal["won", "even", "lost"]

_EVEN = 0.97
"""A ratio from here to 1 is no loss that anybody would notice."""


@dataclass(frozen=True)
class Duel:
    """One of Shoal's rigs and the best peer of a cell."""

    cell: CellResult
    shoal: RigResult
    peer: RigResult
    ratio: Ratio

    @property
    def verdict(self) -> Verdict:
        """Even if the interval includes 1; without one, if the ratio is near 1."""
        low, high = self.ratio.low, self.ratio.high
        if low is None or high is None:
            low, high = self.ratio.value * _EVEN, self.ratio.value / _EVEN
        if low > 1:
            return "won"
        return "lost" if high < 1 and self.ratio.value < _EVEN else "even"


def duels(run: RunResult) -> list[Duel]:
    """Shoal's default against the best peer in lockstep, in every cell in which both ran."""
    return [duel for cell in run.cells if (duel := _duel(cell, cell.default, cell.best_peer)) is not None]


def duels_by_halves(run: RunResult) -> list[Duel]:
    """Shoal's fastest way of serving halves against the best peer of all, where there was one."""
    found = []
    for cell in run.cells:
        rig = next((rig for rig in cell.ran if rig.role == "shoal" and rig.way == "halves"), None)
        if (duel := _duel(cell, rig, cell.best_peer_of_all)) is not None:
            found.append(duel)
    return found


def median_ratio(fought: Sequence[Duel]) -> float:
    return statistics.median(duel.ratio.value for duel in fought)


def count(fought: Sequence[Duel], verdict: Verdict) -> int:
    return sum(duel.verdict == verdict for duel in fought)


def _duel(cell: CellResult, rig: RigResult | None, peer_name: str | None) -> Duel | None:
    peer = cell.rig(peer_name)
    if rig is None or peer is None or rig.ratio_to_best_peer is None:
        return None
    return Duel(cell, rig, peer, rig.ratio_to_best_peer)
