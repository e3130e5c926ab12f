"""The run: two workloads, every rig by turns."""

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

from benchmarks.text.text_env import TextWorkload
from benchmarks.throughput.calibration import calibrate
from benchmarks.throughput.contestant import rounds_lasting
from benchmarks.throughput.host import Host, RigError
from benchmarks.throughput.machine import describe_machine, installed_versions
from benchmarks.throughput.ratios import Ratio, paired_ratio
from benchmarks.throughput.rigs.catalogue import RigSpec
from benchmarks.throughput.step_costs import StepCost
from benchmarks.throughput.watch import Watch

CELLS = ((0, 200), (300, 32))
"""Microseconds of work in a step, and how many environments."""
TURN_SECONDS, WARM_UP_SECONDS, PATIENCE_SECONDS = 0.15, 1.0, 2.0
IDEAL, SYNC = "ideal", "SyncVectorEnv"


def _reference(name: str, kind: str) -> RigSpec:
    return RigSpec(name, "none", "gymnasium", f"reference_rigs:{kind}", (), "processes", "reference")


def _gymnasium(name: str, kind: str) -> RigSpec:
    return RigSpec(name, "Gymnasium", "gymnasium", "benchmarks.text.rigs:GymnasiumRig", (kind,), "process-each")


def _shoal(face: str, backend: str, checkout: str = "") -> RigSpec:
    name = f"{face}, {backend}{' (other checkout)' if checkout else ''}"
    arguments = (face, backend, checkout)
    return RigSpec(name, "Shoal", "shoal", "benchmarks.text.rigs:ShoalRig", arguments, "auto", "shoal")


def rigs(checkout: str) -> list[RigSpec]:
    """All that take part: pairs to be compared closely are neighbours."""
    found = [_reference(IDEAL, "IdealRig"), _gymnasium(SYNC, "sync")]
    for backend in ("serial", "shm", "auto"):
        for face in ("ParallelEnv", "EnvList"):
            if backend != "auto" and checkout:
                found.append(_shoal(face, backend, checkout))
            found.append(_shoal(face, backend))
    return [*found, _gymnasium("AsyncVectorEnv", "async"), _reference("one plain loop", "PlainLoopRig")]


@dataclass
class Record:
    """One rig with so many environments of a cost."""

    microseconds: int
    num_envs: int
    rig: str
    rates: list[float] = field(default_factory=list)
    disturbed: int = 0
    of_ideal: Ratio | None = None
    of_sync: Ratio | None = None
    of_other: Ratio | None = None
    """To the same of the other checkout."""
    remark: str | None = None
    problem: str | None = None


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text", description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--beside", default="", metavar="DIR", help="another checkout of Shoal, to be measured too")
    parser.add_argument("--only", default="", help="those rigs that have this in their name, beside the references")
    parser.add_argument("--output", type=Path, default=Path("benchmarks") / "results" / "text", metavar="DIR")
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    options.output.mkdir(parents=True, exist_ok=True)
    console, calibration = Console(), calibrate()
    specs = [spec for spec in rigs(options.beside) if spec.name in (IDEAL, SYNC) or options.only in spec.name]
    records: list[Record] = []
    with Watch(calibration) as watch, tempfile.TemporaryDirectory() as logs, console.status("measuring") as status:
        for microseconds, num_envs in CELLS:
            status.update(f"{microseconds} µs x {num_envs}")
            workload = TextWorkload(num_envs, StepCost(turns=calibration.turns(microseconds)))
            records += _measure(specs, microseconds, workload, options.repeats, watch, Path(logs))
    found = {
        "machine": asdict(describe_machine()),
        "versions": installed_versions(["shoal", "gymnasium", "numpy"]),
        "records": [asdict(record) for record in records],
    }
    (options.output / "text.json").write_text(json.dumps(found, indent=2) + "\n")
    _show(console, records)


def _measure(
    specs: list[RigSpec], microseconds: int, workload: TextWorkload, repeats: int, watch: Watch, logs: Path
) -> list[Record]:
    hosts = [Host(spec, logs) for spec in specs]
    records = [Record(microseconds, workload.num_envs, spec.name) for spec in specs]
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
    by_name = {record.rig: record for record in records}
    for record in records:
        record.of_ideal = _ratio(record, by_name.get(IDEAL))
        record.of_sync = _ratio(record, by_name.get(SYNC))
        record.of_other = _ratio(record, by_name.get(f"{record.rig} (other checkout)"))
    return records


def _ratio(record: Record, other: Record | None) -> Ratio | None:
    if other is None or not record.rates or len(record.rates) != len(other.rates):
        return None
    return paired_ratio(record.rates, other.rates)


def _start(host: Host, record: Record, workload: TextWorkload) -> functools.partial[float] | None:
    try:
        host.start(workload)
        rate = host.measure(2)
        rate = host.measure(rounds_lasting(WARM_UP_SECONDS, rate, workload.num_envs))
        record.remark = host.remark()
        host.freeze()
    except RigError as failure:
        record.problem = str(failure)
        return None
    rounds = [rounds_lasting(seconds, rate, workload.num_envs) for seconds in (0.01, TURN_SECONDS)]
    return functools.partial(host.measure_thawed, *rounds)


def _show(console: Console, records: Sequence[Record]) -> None:
    for microseconds, num_envs in CELLS:
        table = Table(
            title=f"{num_envs} text worlds of {microseconds} µs", title_justify="left", title_style="bold",
            box=SIMPLE_HEAD,
        )  # fmt: skip
        table.add_column("")
        for name in ("steps a second", "of ideal", f"of {SYNC}", "of the other checkout"):
            table.add_column(name, justify="right")
        for record in records:
            if (record.microseconds, record.num_envs) != (microseconds, num_envs):
                continue
            if record.problem is not None or not record.rates:
                table.add_row(record.rig, f"not run: {record.problem}")
                continue
            ratios = [_written(ratio) for ratio in (record.of_ideal, record.of_sync, record.of_other)]
            table.add_row(record.rig, f"{statistics.median(record.rates):,.0f}", *ratios)
        console.print(table)
    for record in records:
        if record.remark and "auto" in record.rig:
            console.print(f"{record.rig}, {record.microseconds} µs: {record.remark}", style="dim", highlight=False)
    disturbed, total = sum(record.disturbed for record in records), sum(len(record.rates) for record in records)
    console.print(f"{disturbed} of {total} measurements were taken on an unsteady machine", style="dim")


def _written(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio.value:.2f}" if ratio.low is None else f"{ratio.value:.2f} [{ratio.low:.2f}-{ratio.high:.2f}]"
