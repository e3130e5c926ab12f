"""The run: two questions, every rig by turns.

1. Steps of exponential length, 32 environments, half batches: what share of the ideal is reached?
2. One environment 50 times slower than the other 31: what do the others lose?
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.throughput.calibration import calibrate
from benchmarks.throughput.cells import Spread
from benchmarks.throughput.host import Host, RigError
from benchmarks.throughput.rigs.catalogue import RigSpec
from benchmarks.throughput.step_costs import StepCost
from benchmarks.throughput.watch import Watch
from benchmarks.throughput.workload import Workload

NUM_ENVS, STEP_MICROSECONDS = 32, 1000
ROUNDS = 24  # a multiple of those after which costs repeat
PATIENCE_SECONDS = 2.0
SLOWNESS = 50
SPREADS: tuple[Spread, ...] = ("exponential", "even", "straggler")


def _spec(name: str, library: str, *arguments: str) -> RigSpec:
    factory = "benchmarks.first_ready.rigs:OthersRig"
    return RigSpec(name, library, library.lower(), factory, arguments, "processes")


IDEAL = _spec("ideal", "none", "reference_rigs:IdealRig")
RIGS = (
    _spec("shoal, first-ready", "Shoal", "shoal_rigs:ShoalFirstReadyRig", "1"),
    _spec("shoal, first-ready, 4 workers per processor", "Shoal", "shoal_rigs:ShoalFirstReadyRig", "4"),
    _spec("shoal, lockstep", "Shoal", "shoal_rigs:ShoalRig", "shm"),
    _spec("tianshou, wait_num", "Tianshou", "tianshou_rigs:TianshouWaitNumRig"),
    _spec("torchrl, AsyncEnvPool", "TorchRL", "torchrl_rigs:TorchRLPoolHalvesRig", "multiprocessing"),
    _spec("gymnasium, lockstep", "Gymnasium", "gymnasium_rigs:GymnasiumRig", "async"),
)


@dataclass
class Record:
    """What was measured of one rig, in steps per second of all environments but the first."""

    rig: str
    rates: dict[str, list[float]] = field(default_factory=dict)
    disturbed: int = 0
    """Rates that were taken on an unsteady machine."""
    problem: str | None = None


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_ready", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("benchmarks") / "results" / "first_ready", metavar="DIR")
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    options.output.mkdir(parents=True, exist_ok=True)
    console = Console()
    calibration = calibrate()
    turns = calibration.turns(STEP_MICROSECONDS)
    specs = (IDEAL, *RIGS)
    records = [Record(spec.name) for spec in specs]
    with Watch(calibration) as watch, tempfile.TemporaryDirectory() as logs, console.status("measuring"):
        hosts = [Host(spec, Path(logs)) for spec in specs]
        try:
            for _ in range(options.repeats):
                for host, record in zip(hosts, records, strict=True):
                    for spread in SPREADS:
                        if record.problem is None:
                            _take_turn(host, record, turns, spread, watch)
        finally:
            for host in hosts:
                host.end()
    text = json.dumps([asdict(record) for record in records], indent=2)
    (options.output / "first_ready.json").write_text(text + "\n")
    _show(console, records)


def _take_turn(host: Host, record: Record, turns: int, spread: Spread, watch: Watch) -> None:
    if spread == "straggler" and record.rig == IDEAL.name:
        return
    workload = Workload(NUM_ENVS, StepCost(turns, spread=spread, slowness=SLOWNESS))
    # In lockstep every round waits for the straggler.
    waits = "lockstep" in record.rig and spread == "straggler"
    try:
        host.start(workload)
        host.freeze()
        measure = functools.partial(host.measure_thawed, 2, ROUNDS // 3 if waits else ROUNDS)
        rate = watch.steady_rate(measure, PATIENCE_SECONDS)
        record.rates.setdefault(spread, []).append(rate.value)
        record.disturbed += not rate.steady
        host.close()
    except RigError as failure:
        record.problem = str(failure)


def _show(console: Console, records: Sequence[Record]) -> None:
    table = Table(
        title=f"{NUM_ENVS} environments of {STEP_MICROSECONDS} µs, half batches: medians of ratios",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
    )
    for name in (
        "rig",
        "exponential steps: of ideal",
        f"others beside one {SLOWNESS} times slower: of their rate without",
    ):
        table.add_column(name, justify="left" if name == "rig" else "right")
    ideal = records[0].rates["exponential"]
    for record in records[1:]:
        if record.problem is not None:
            table.add_row(record.rig, f"not run: {record.problem}")
            continue
        exponential = [mine / best for mine, best in zip(record.rates["exponential"], ideal, strict=True)]
        pairs = zip(record.rates["straggler"], record.rates["even"], strict=True)
        beside = [with_it / without for with_it, without in pairs]
        style = "bold cyan" if record.rig.startswith("shoal") else ""
        table.add_row(record.rig, _interval(exponential), _interval(beside), style=style)
    console.print(table)
    disturbed = sum(record.disturbed for record in records)
    total = sum(len(rates) for record in records for rates in record.rates.values())
    console.print(f"{disturbed} of {total} measurements were taken on an unsteady machine", style="dim")


def _interval(ratios: Sequence[float]) -> str:
    return f"{100 * statistics.median(ratios):.0f} % [{100 * min(ratios):.0f}-{100 * max(ratios):.0f}]"
