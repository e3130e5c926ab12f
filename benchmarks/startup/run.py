"""The run: every rig starts a few and many light environments, by turns."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.throughput.cells import VECTOR
from benchmarks.throughput.host import Host, RigError
from benchmarks.throughput.rigs.catalogue import CONTESTANTS
from benchmarks.throughput.work_env import Workload

FEW, MANY = 1, 200
RIGS = ("shoal-serial", "shoal-pipes", "shoal-shm", "gymnasium-async", "sb3-subproc", "tianshou-shmem",
        "torchrl-parallel", "pufferlib-multiprocessing")  # fmt: skip


@dataclass
class Record:
    """What was measured of one rig."""

    rig: str
    few: list[float] = field(default_factory=list)
    """Seconds until one environment has been made and reset."""
    many: list[float] = field(default_factory=list)
    """The same for two hundred."""
    megabytes: list[float] = field(default_factory=list)
    """PSS of all processes that run the two hundred; shared pages are divided among who shares them."""
    problem: str | None = None


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rigs", default=",".join(RIGS), help="comma-separated names of rigs")
    parser.add_argument("--output", type=Path, default=Path("benchmarks") / "results" / "startup", metavar="DIR")
    options = parser.parse_args(arguments)
    chosen = [spec for spec in CONTESTANTS if spec.name in options.rigs.split(",")]
    os.environ["OMP_NUM_THREADS"] = "1"
    options.output.mkdir(parents=True, exist_ok=True)
    console = Console()
    with tempfile.TemporaryDirectory() as logs, console.status("starting"):
        hosts = [Host(spec, Path(logs)) for spec in chosen]
        records = [Record(spec.name) for spec in chosen]
        try:
            for _ in range(options.repeats):
                for number in (FEW, MANY):
                    for host, record in zip(hosts, records, strict=True):
                        if record.problem is None:
                            _take_turn(host, record, number)
        finally:
            for host in hosts:
                host.end()
    text = json.dumps([asdict(record) for record in records], indent=2)
    (options.output / "startup.json").write_text(text + "\n")
    _show(console, records)


def _take_turn(host: Host, record: Record, number: int) -> None:
    """Start so many environments, note how long it took and how large it is, and close them."""
    workload = Workload(number, 0, VECTOR.shape, VECTOR.dtype)
    try:
        host.launch_and_wait()
        begin = time.perf_counter()
        host.start(workload)
        seconds = time.perf_counter() - begin
        (record.few if number == FEW else record.many).append(seconds)
        if number == MANY:
            record.megabytes.append(_pss(host.pid) / 2**20)
        host.close()
    except RigError as failure:
        record.problem = str(failure)


def _pss(pid: int) -> int:
    process = psutil.Process(pid)
    total = 0
    for one in (process, *process.children(recursive=True)):
        try:
            total += one.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


def _show(console: Console, records: Sequence[Record]) -> None:
    table = Table(title="Start-up: medians", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in ("rig", f"{FEW} environment", f"{MANY} environments", "more", f"memory of {MANY}"):
        table.add_column(name, justify="left" if name == "rig" else "right")
    for record in records:
        if record.problem is not None:
            table.add_row(record.rig, f"not run: {record.problem}")
            continue
        few, many = statistics.median(record.few), statistics.median(record.many)
        megabytes = statistics.median(record.megabytes)
        style = "bold cyan" if record.rig.startswith("shoal") else ""
        table.add_row(
            record.rig, f"{few:.2f} s", f"{many:.2f} s", f"{many - few:.2f} s", f"{megabytes:,.0f} MB", style=style
        )
    console.print(table)
