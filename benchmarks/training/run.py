"""The run: everybody by turns at each task, then Shoal with more and more environments; then tables and a file."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.busy_processes import busy_processes
from benchmarks.throughput.calibration import Calibration, calibrate
from benchmarks.throughput.machine import describe_machine, installed_versions
from benchmarks.throughput.ratios import ratio_of_medians
from benchmarks.throughput.watch import Rate, Watch
from benchmarks.training.lineup import BUSY_PEERS, PEERS, SHOAL, Contestant, Trainer
from benchmarks.training.task import CELLS, GROWTH, Cell, Task

PATIENCE = 4.0
"""Seconds to wait for a steady machine, for every turn."""
TARGETS = {"Stable-Baselines3": 2.0, "single file": 1.5}
BUSY_TARGETS = {"Stable-Baselines3": 1.5}
"""Beside busy processes."""
LIMITS = {
    "environments": "the environments",
    "policy": "the policy",
    "update": "the update",
    "other": "everything else",
}


@dataclass
class Record:
    """What was measured of a contestant at one task."""

    cell: str
    contestant: str
    library: str
    rates: list[float] = field(default_factory=list)
    """Steps per second, one for each turn; at the calibrated speed of the machine, except beside busy processes."""
    unsteady: int = 0
    """Turns that never met a steady machine."""
    told: dict[str, Any] = field(default_factory=dict)
    """What it said of itself, in the last turn."""
    problem: str | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


def main(arguments: Sequence[str]) -> None:
    options = _parse(arguments)
    console = Console()
    console.width = max(console.width, 125)  # also where it is written to a file
    begin = time.monotonic()
    machine, calibration = describe_machine(), calibrate()
    cells = [cell for cell in CELLS if cell.name in options.cells.split(",")]
    contestants = (SHOAL, *(BUSY_PEERS if options.busy else PEERS))
    records: list[Record] = []
    growth: list[Record] = []
    with console.status("measuring") as status, contextlib.ExitStack() as stack:
        # Beside busy processes the machine cannot be steady.
        watch = None if options.busy else stack.enter_context(Watch(calibration))
        stack.enter_context(busy_processes(options.busy))
        for cell in cells:
            found = measure(cell, contestants, calibration, watch, options.repeats, status.update)
            console.print(comparison_table(cell, found, options.busy))
            records += found
        if not options.no_growth:
            growth = measure_growth(calibration, watch, options.repeats, status.update)
    if growth:
        console.print(growth_table(growth))
    result = {
        "command": shlex.join(["python", "-m", "benchmarks.training", *arguments]),
        "seconds": round(time.monotonic() - begin, 1),
        "machine": asdict(machine),
        "versions": installed_versions(["shoal", "torch", "gymnasium", "stable-baselines3", "numpy", "numba"]),
        "busy": options.busy,
        "settings": asdict(Task(CELLS[0], 0).settings),
        "records": [asdict(record) for record in records],
        "growth": [asdict(record) for record in growth],
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=2) + "\n")
    console.print(f"Saved {options.output}", highlight=False)


def measure(
    cell: Cell,
    contestants: Sequence[Contestant],
    calibration: Calibration,
    watch: Watch | None,
    repeats: int,
    say: Callable[[str], None],
) -> list[Record]:
    """Everybody at one task, by turns."""
    task = Task(cell, calibration.turns(cell.step_microseconds or 0.0))
    records = [Record(cell.name, contestant.name, contestant.library) for contestant in contestants]
    trainers: list[Trainer | None] = []
    try:
        for contestant, record in zip(contestants, records, strict=True):
            say(f"{cell.name}: starting {contestant.name}")
            try:
                trainers.append(Trainer(contestant, task))
            except (RuntimeError, TimeoutError) as error:
                record.problem = str(error)
                trainers.append(None)
        for repeat in range(repeats):
            for trainer, record in zip(trainers, records, strict=True):
                say(f"{cell.name}: turn {repeat + 1} of {repeats}, {record.contestant}")
                _take_turn(trainer, record, watch)
    finally:
        for trainer in trainers:
            if trainer is not None:
                trainer.end()
    return records


def measure_growth(
    calibration: Calibration, watch: Watch | None, repeats: int, say: Callable[[str], None]
) -> list[Record]:
    """Shoal with one environment and with more, by turns."""
    tasks = [Task(cell, calibration.turns(cell.step_microseconds or 0.0)) for cell in GROWTH]
    records = [Record(task.cell.name, SHOAL.name, SHOAL.library) for task in tasks]
    trainers = [Trainer(SHOAL, task) for task in tasks]
    try:
        for repeat in range(repeats):
            for trainer, record in zip(trainers, records, strict=True):
                say(f"more environments: turn {repeat + 1} of {repeats}, {record.cell}")
                _take_turn(trainer, record, watch)
    finally:
        for trainer in trainers:
            trainer.end()
    return records


def _take_turn(trainer: Trainer | None, record: Record, watch: Watch | None) -> None:
    if trainer is None or record.problem is not None:
        return
    try:
        rate = Rate(trainer.rate(), True) if watch is None else watch.steady_rate(trainer.rate, PATIENCE)
        record.rates.append(rate.value)
        record.unsteady += not rate.steady
        record.told = trainer.told
    except (RuntimeError, TimeoutError) as error:
        record.problem = str(error)


def comparison_table(cell: Cell, records: Sequence[Record], busy: int) -> Table:
    """Everybody, and how many times as fast Shoal is."""
    columns = ("", "steps a second", "lowest-highest", "unsteady", "Shoal is", "target")
    beside = f" beside {busy} busy process{'' if busy == 1 else 'es'}" if busy else ""
    table = _table(f"{cell.name}{beside}: the whole training loop, medians", columns)
    ours = next(record for record in records if record.library == SHOAL.library)
    targets = BUSY_TARGETS if busy else TARGETS
    best = {library: _best(records, library) for library in targets}
    for record in records:
        if record.problem is not None:
            table.add_row(record.contestant, f"not run: {record.problem}")
            continue
        times, target, style = "", "", "bold cyan" if record is ours else ""
        if record is not ours:
            ratio = ratio_of_medians(ours.rates, record.rates)
            interval = "" if ratio.low is None else f" [{ratio.low:.2f}-{ratio.high:.2f}]"
            times = f"{ratio.value:.2f} x{interval}"
        if record is best.get(record.library):
            wanted = targets[record.library]
            target = f">= {wanted:.1f} x the better"
            style = "" if ours.median >= wanted * record.median else "yellow"
        spread = f"{min(record.rates):,.0f}-{max(record.rates):,.0f}"
        unsteady = "" if busy else f"{record.unsteady} of {len(record.rates)}"
        table.add_row(record.contestant, f"{record.median:,.0f}", spread, unsteady, times, target, style=style)
    return table


def growth_table(records: Sequence[Record]) -> Table:
    """How much faster training is with more environments, and what takes the time."""
    table = _table(
        "More environments of 300 µs: the whole training loop",
        ("environments", "backend", "steps a second", "speed-up", *LIMITS.values()),
    )
    first = records[0]
    for record in records:
        shares = record.told.get("shares", {})
        ratio = ratio_of_medians(record.rates, first.rates)
        interval = "" if ratio.low is None or record is first else f" [{ratio.low:.2f}-{ratio.high:.2f}]"
        table.add_row(
            record.cell.partition("x")[2], record.told.get("backend", ""), f"{record.median:,.0f}",
            f"{ratio.value:.2f}{interval}", *(f"{shares.get(name, 0.0):.0%}" for name in LIMITS),
        )  # fmt: skip
    return table


def _best(records: Sequence[Record], library: str) -> Record | None:
    those = [record for record in records if record.library == library and record.rates]
    return max(those, key=lambda record: record.median, default=None)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number == 0 else "right")
    return table


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument("--repeats", type=int, default=9, help="turns of everybody")
    parser.add_argument("--cells", help="comma-separated names")
    parser.add_argument("--no-growth", action="store_true", help="leave out the table of 1, 4, 8 and 16 environments")
    busy = "beside so many busy processes; without --cells, the cells of CartPole alone; never with the last table"
    parser.add_argument("--busy", type=int, default=0, metavar="NUMBER", help=busy)
    default = Path("benchmarks") / "results" / "training" / "training.json"
    parser.add_argument("--output", type=Path, default=default, metavar="FILE")
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    if options.busy < 0:
        parser.error("--busy must not be negative")
    if options.cells is None:
        options.cells = ",".join(cell.name for cell in CELLS if not options.busy or cell.step_microseconds is None)
    options.no_growth = options.no_growth or options.busy > 0
    unknown = sorted(set(options.cells.split(",")) - {cell.name for cell in CELLS})
    if unknown:
        parser.error(f"there is no cell {unknown[0]!r}: choose among {', '.join(cell.name for cell in CELLS)}")
    return options
