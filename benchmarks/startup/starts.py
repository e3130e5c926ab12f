"""Starting a few and many light environments by turns: how long it takes, and in how much memory they run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.throughput.host import Host, RigError
from benchmarks.throughput.rigs.catalogue import RigSpec
from benchmarks.throughput.workload import Workload

FEW, MANY = 1, 200


@dataclass
class StartRecord:
    """What was measured of one rig."""

    rig: str
    few: list[float] = field(default_factory=list)
    """Seconds until one environment has been made and reset."""
    many: list[float] = field(default_factory=list)
    """The same for two hundred."""
    megabytes: list[float] = field(default_factory=list)
    """PSS of all processes that run the two hundred; shared pages are divided among who shares them."""
    problem: str | None = None


def measure_starts(
    rigs: Sequence[RigSpec], repeats: int, logs: Path, say: Callable[[str], None]
) -> tuple[StartRecord, ...]:
    """Every rig by turns, each in a process that has already imported its library."""
    hosts = [Host(rig, logs) for rig in rigs]
    records = tuple(StartRecord(rig.name) for rig in rigs)
    try:
        for repeat in range(repeats):
            for number in (FEW, MANY):
                for host, record in zip(hosts, records, strict=True):
                    if record.problem is None:
                        say(f"starting {number}: repeat {repeat + 1} of {repeats}, {record.rig}")
                        _take_turn(host, record, number)
    finally:
        for host in hosts:
            host.end()
    return records


def starts_table(records: Sequence[StartRecord]) -> Table:
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
    return table


def _take_turn(host: Host, record: StartRecord, number: int) -> None:
    """Start so many environments, note how long it took and how large it is, and close them."""
    try:
        host.launch_and_wait()
        begin = time.perf_counter()
        host.start(Workload(number))
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
