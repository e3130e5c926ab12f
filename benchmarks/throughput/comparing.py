"""From the rates of a cell to its ratios.

Whoever steps in lockstep is held against peers in lockstep. Whoever serves halves is held against all peers, because
who steps in lockstep serves everybody, too.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from benchmarks.throughput.ratios import Ratio, ratio_of_medians
from benchmarks.throughput.results import RigResult
from benchmarks.throughput.rigs.catalogue import IDEAL, Way


def with_medians(rigs: Sequence[RigResult]) -> list[RigResult]:
    return [dataclasses.replace(rig, median=statistics.median(rig.rates)) if rig.rates else rig for rig in rigs]


def with_ratios(rigs: Sequence[RigResult], ideal_of_halves: bool) -> tuple[RigResult, ...]:
    """Rates of one repeat were taken side by side and stay paired. Not every ideal holds for halves."""
    ideal = next((rig for rig in rigs if rig.name == IDEAL.name), None)
    peers = {way: best_peer(rigs, way) for way in ("lockstep", "halves")}
    return tuple(
        dataclasses.replace(
            rig,
            ratio_to_ideal=_ratio(rig, ideal) if rig.way == "lockstep" or ideal_of_halves else None,
            ratio_to_best_peer=_ratio(rig, peers[rig.way]),
        )
        for rig in rigs
    )


def best_peer(rigs: Sequence[RigResult], way: Way) -> RigResult | None:
    """The fastest peer that one who works this way is held against, if any of them ran."""
    ran = [rig for rig in rigs if rig.role == "peer" and rig.median is not None and (way == "halves" or rig.way == way)]
    return max(ran, key=lambda rig: rig.median or 0.0, default=None)


def _ratio(rig: RigResult, reference: RigResult | None) -> Ratio | None:
    if not rig.rates or reference is None or not reference.rates:
        return None
    return ratio_of_medians(rig.rates, reference.rates)
