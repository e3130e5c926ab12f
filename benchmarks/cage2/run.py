"""The run: few games and many, then the setting of the original, then tables and a file."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.cage2 import tables
from benchmarks.cage2.original import GAMES, SIZES, measure_original
from benchmarks.cage2.plan import FULL, QUICK, Plan
from benchmarks.cage2.sizes import measure_growth, measure_sizes
from benchmarks.cage2.stand_in import costs_of
from benchmarks.throughput.calibration import calibrate
from benchmarks.throughput.machine import describe_machine, installed_versions
from benchmarks.throughput.watch import Watch


def main(arguments: Sequence[str]) -> None:
    options = _parse(arguments)
    plan = _plan(options)
    os.environ["OMP_NUM_THREADS"] = "1"
    options.output.parent.mkdir(parents=True, exist_ok=True)
    console = Console()
    console.width = max(console.width, 125)  # also where it is written to a file
    begin = time.monotonic()
    machine, calibration = describe_machine(), calibrate()
    costs = costs_of(calibration)
    with Watch(calibration) as watch, console.status("measuring") as status:
        sizes = measure_sizes(plan, costs, watch, status.update)
        console.print(tables.sizes_table(sizes))
        growth = measure_growth(plan, costs, watch, status.update)
        console.print(tables.growth_table(growth))
        original = measure_original(plan, costs, watch, status.update)
    for game in GAMES:
        console.print(tables.original_table(original, game))
    for game, num_envs in itertools.product(GAMES, SIZES):
        console.print(tables.shares_table(original, game, num_envs))
    taken = [*(record.rates for record in (*sizes, growth.few, growth.many)), *(record.rates for record in original)]
    console.print(tables.disturbed_text(taken), style="dim", highlight=False)
    found = {
        "command": shlex.join(["python", "-m", "benchmarks.cage2", *arguments]),
        "seconds": round(time.monotonic() - begin, 1),
        "machine": asdict(machine),
        "versions": installed_versions(["shoal", "gymnasium", "numpy", "numba"]),
        "calibration": asdict(calibration),
        "plan": asdict(plan),
        "costs": asdict(costs),
        "sizes": [asdict(record) for record in sizes],
        "growth": asdict(growth),
        "original": [asdict(record) for record in original],
    }
    options.output.write_text(json.dumps(found, indent=2) + "\n")
    console.print(f"Saved {options.output}", highlight=False)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cage2", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer environments, steps and repeats: a minute or two")
    parser.add_argument("--repeats", type=int, help=f"turns of everybody; {FULL.repeats}, or {QUICK.repeats} if quick")
    default = Path("benchmarks") / "results" / "cage2" / "cage2.json"
    parser.add_argument("--output", type=Path, default=default, metavar="FILE")
    options = parser.parse_args(arguments)
    if options.repeats is not None and options.repeats < 1:
        parser.error("--repeats must be at least 1")
    return options


def _plan(options: argparse.Namespace) -> Plan:
    plan = QUICK if options.quick else FULL
    return plan if options.repeats is None else dataclasses.replace(plan, repeats=options.repeats)
