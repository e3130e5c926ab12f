"""A run as JSON: everything that was measured, and what it amounts to."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pydantic

from benchmarks.throughput.results import RunResult
from benchmarks.throughput.summary import Duel, count, duels, duels_by_halves, median_ratio


def save(run: RunResult, path: Path) -> None:
    summary = {"lockstep": _summary(duels(run)), "halves": _summary(duels_by_halves(run))}
    path.write_text(json.dumps({"summary": summary, **dataclasses.asdict(run)}, indent=2) + "\n")


def load(path: Path) -> RunResult:
    """What was measured; the summary follows from that."""
    return pydantic.TypeAdapter(RunResult).validate_json(path.read_bytes())


def _summary(fought: Sequence[Duel]) -> dict[str, Any] | None:
    if not fought:
        return None
    return {
        "median_ratio": median_ratio(fought),
        "won": count(fought, "won"),
        "even": count(fought, "even"),
        "lost": count(fought, "lost"),
        "cells": {duel.cell.name: _line(duel) for duel in fought},
    }


def _line(duel: Duel) -> dict[str, Any]:
    return {
        "shoal": duel.shoal.name,
        "steps_per_second": duel.shoal.median,
        "share_of_ideal": None if duel.shoal.ratio_to_ideal is None else duel.shoal.ratio_to_ideal.value,
        "best_peer": duel.peer.name,
        "steps_per_second_of_best_peer": duel.peer.median,
        "ratio": dataclasses.asdict(duel.ratio),
        "verdict": duel.verdict,
        "suspect": duel.cell.suspect,
    }
