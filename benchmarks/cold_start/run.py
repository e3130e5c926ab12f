"""The run: every contestant in every size, beside every number of busy processes, by turns."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.busy_processes import busy_processes
from benchmarks.throughput.machine import describe_machine, installed_versions

LIBRARIES = ("shoal", "gymnasium")
SIZES = (10, 200, 1000)
STEADY_SHARE = 1 / 3
"""The last third of the time says what the steady speed is."""


@dataclass
class Record:
    """One contestant; one entry for each repeat."""

    num_envs: int
    busy: int
    library: str
    longest: list[float] = field(default_factory=list)
    """Seconds of the longest step ..."""
    typical: list[float] = field(default_factory=list)
    """... and of the median one."""
    first_second: list[float] = field(default_factory=list)
    """Steps of environments in the first second of stepping."""
    steady: list[float] = field(default_factory=list)
    """Steps of environments per second, in the last third of the time."""
    moves: list[list[Any]] = field(default_factory=list)

    def note(self, played: dict[str, Any]) -> None:
        steps: list[float] = played["steps"]
        self.longest.append(max(steps))
        self.typical.append(median(steps))
        passed, first = 0.0, 0
        for seconds in steps:
            passed += seconds
            if passed > 1.0:
                break
            first += 1
        self.first_second.append(first * self.num_envs)
        total, last, taken = sum(steps), 0.0, 0
        for seconds in reversed(steps):
            if last > STEADY_SHARE * total:
                break
            last += seconds
            taken += 1
        self.steady.append(taken * self.num_envs / last)
        self.moves.append(played["moves"])


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold_start", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--sizes", type=_numbers, default=SIZES, metavar="10,200,1000")
    parser.add_argument("--busy", type=_numbers, default=(0, 1), metavar="0,1", help="busy processes beside it")
    parser.add_argument("--output", type=Path, default=Path("benchmarks") / "results" / "cold_start", metavar="DIR")
    options = parser.parse_args(arguments)
    console, machine = Console(), describe_machine()
    records = [
        Record(num_envs, busy, library) for busy in options.busy for num_envs in options.sizes for library in LIBRARIES
    ]
    with console.status("measuring") as status:
        for repeat in range(options.repeats):
            for record in records:
                status.update(f"repeat {repeat + 1}: {record.library}, {record.num_envs}, {record.busy} busy")
                with busy_processes(record.busy):
                    record.note(_played(record, options.seconds))
    options.output.mkdir(parents=True, exist_ok=True)
    described = {"machine": asdict(machine), "versions": installed_versions(["numpy", "gymnasium"])}
    text = json.dumps({**described, "records": [asdict(record) for record in records]}, indent=1)
    (options.output / "cold_start.json").write_text(text + "\n")
    console.print(_table(records))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _played(record: Record, seconds: float) -> dict[str, Any]:
    contestant = [sys.executable, "-m", "benchmarks.cold_start.contestant"]
    command = [*contestant, record.library, str(record.num_envs), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60 + 10 * seconds)
    played: dict[str, Any] = json.loads(done.stdout)
    return played


def _table(records: Sequence[Record]) -> Table:
    table = Table(box=SIMPLE_HEAD, title="From cold: medians over the repeats, beside Gymnasium's SyncVectorEnv")
    for heading in ("CartPoles", "busy", "median step", "longest step", "first second", "steady", "where"):
        table.add_column(heading, justify="right")
    by_key = {(record.num_envs, record.busy, record.library): record for record in records}
    for record in records:
        if record.library == "shoal":
            peer = by_key[record.num_envs, record.busy, "gymnasium"]
            table.add_row(
                str(record.num_envs),
                str(record.busy),
                f"{1e3 * median(record.typical):.2f} ms ({1e3 * median(peer.typical):.2f})",
                f"{1e3 * median(record.longest):.1f} ms ({1e3 * median(peer.longest):.1f})",
                f"{median(record.first_second):,.0f} ({_ratio(record.first_second, peer.first_second)})",
                f"{median(record.steady):,.0f} ({_ratio(record.steady, peer.steady)})",
                ", ".join(f"{where} {when} s" for when, where in record.moves[-1]),
            )
    return table


def _ratio(mine: Sequence[float], its: Sequence[float]) -> str:
    """The median of the repeats, each held against its own."""
    return f"{median(one / other for one, other in zip(mine, its, strict=True)):.2f} x"
