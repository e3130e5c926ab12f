"""The run: every world in every size, every rig by turns."""

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
from benchmarks.throughput.contestant import rounds_lasting
from benchmarks.throughput.host import Host, RigError
from benchmarks.throughput.machine import describe_machine, installed_versions
from benchmarks.throughput.ratios import Ratio, paired_ratio
from benchmarks.throughput.rigs.catalogue import RigSpec
from benchmarks.throughput.watch import Watch
from benchmarks.worlds.rigs import WorldWorkload

WORLDS = ("FrozenLake-v1", "CartPole-v1")
SIZES = (256, 4096)
TURN_SECONDS, PATIENCE_SECONDS = 0.06, 3.0


def _spec(name: str, library: str, kind: str, cores: str) -> RigSpec:
    return RigSpec(name, library, library.lower(), f"benchmarks.worlds.rigs:{kind}", (cores,), "compiled")


RIGS = (
    _spec("EnvPool, one core", "EnvPool", "EnvPoolRig", "one core"),
    _spec("EnvPool, all cores", "EnvPool", "EnvPoolRig", "all cores"),
    _spec("Shoal's world, one core", "Shoal", "ShoalWorldRig", "one core"),
    _spec("Shoal's world, all cores", "Shoal", "ShoalWorldRig", "all cores"),
    _spec("Gymnasium's environment in Shoal, auto", "Shoal", "ShoalRig", "all cores"),
    _spec("Gymnasium's environment, SyncVectorEnv", "Gymnasium", "GymnasiumRig", "all cores"),
)
REFERENCE = RIGS[0].name


@dataclass
class Record:
    """One rig with so many environments of a world."""

    world: str
    num_envs: int
    rig: str
    rates: list[float] = field(default_factory=list)
    disturbed: int = 0
    ratio: Ratio | None = None
    """To EnvPool on one core."""
    problem: str | None = None


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worlds", description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--output", type=Path, default=Path("benchmarks") / "results" / "worlds", metavar="DIR")
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    options.output.mkdir(parents=True, exist_ok=True)
    console = Console()
    machine, calibration = describe_machine(), calibrate()
    records: list[Record] = []
    with Watch(calibration) as watch, tempfile.TemporaryDirectory() as logs, console.status("measuring") as status:
        for world in WORLDS:
            for num_envs in SIZES:
                status.update(f"{world} x {num_envs}")
                records += _measure(world, num_envs, options.repeats, watch, Path(logs))
    found = {
        "machine": asdict(machine),
        "versions": installed_versions(["shoal", "gymnasium", "numpy", "envpool", "numba"]),
        "records": [asdict(record) for record in records],
    }
    (options.output / "worlds.json").write_text(json.dumps(found, indent=2) + "\n")
    _show(console, records)


def _measure(world: str, num_envs: int, repeats: int, watch: Watch, logs: Path) -> list[Record]:
    workload = WorldWorkload(num_envs, env_id=world)
    hosts = [Host(spec, logs) for spec in RIGS]
    records = [Record(world, num_envs, spec.name) for spec in RIGS]
    measures = []
    try:
        for host, record in zip(hosts, records, strict=True):
            measures.append(_start(host, record, workload))
        for _ in range(repeats):
            for measure, record in zip(measures, records, strict=True):
                if measure is not None and record.problem is None:
                    try:
                        rate = watch.steady_rate(measure, PATIENCE_SECONDS)
                    except RigError as failure:
                        record.problem = str(failure)
                        continue
                    record.rates.append(rate.value)
                    record.disturbed += not rate.steady
    finally:
        for host in hosts:
            host.end()
    reference = records[0]
    for record in records:
        if record.rates and len(record.rates) == len(reference.rates):
            record.ratio = paired_ratio(record.rates, reference.rates)
    return records


def _start(host: Host, record: Record, workload: WorldWorkload) -> functools.partial[float] | None:
    try:
        host.start(workload)
        host.measure(2)
        # Long enough for whoever compiles or decides something in the first steps.
        rate = host.measure(500)
        rate = host.measure(rounds_lasting(TURN_SECONDS, rate, workload.num_envs))
        host.freeze()
    except RigError as failure:
        record.problem = str(failure)
        return None
    rounds = rounds_lasting(TURN_SECONDS, rate, workload.num_envs)
    return functools.partial(host.measure_thawed, rounds_lasting(0.01, rate, workload.num_envs), rounds)


def _show(console: Console, records: Sequence[Record]) -> None:
    for world in WORLDS:
        table = Table(title=f"{world}: steps a second", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
        table.add_column("")
        for num_envs in SIZES:
            table.add_column(f"{num_envs} environments", justify="right")
            table.add_column("of EnvPool's", justify="right")
        for spec in RIGS:
            cells = []
            for record in (each for each in records if each.world == world and each.rig == spec.name):
                if record.problem is not None or not record.rates:
                    cells += ["not run", ""]
                    continue
                cells.append(f"{statistics.median(record.rates):,.0f}")
                ratio = record.ratio
                low = "" if ratio is None or ratio.low is None else f" [{ratio.low:.3g}-{ratio.high:.3g}]"
                cells.append("" if ratio is None else f"{ratio.value:.3g}x{low}")
            table.add_row(spec.name, *cells, style="bold cyan" if spec.library == "Shoal" else "")
        console.print(table)
    for problem, rigs in _problems(records).items():
        console.print(f"not run ({problem}): {', '.join(sorted(rigs))}", style="dim", highlight=False)
    disturbed, total = sum(record.disturbed for record in records), sum(len(record.rates) for record in records)
    console.print(f"{disturbed} of {total} measurements were taken on an unsteady machine", style="dim")


def _problems(records: Sequence[Record]) -> dict[str, set[str]]:
    problems: dict[str, set[str]] = {}
    for record in records:
        if record.problem is not None:
            problems.setdefault(record.problem, set()).add(f"{record.rig}, {record.world}")
    return problems
