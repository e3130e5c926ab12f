"""A whole run: calibrate, load every library, measure cell after cell, save and show."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks.startup.starters import starters
from benchmarks.startup.starts import StartRecord, measure_starts
from benchmarks.throughput.busy.run import run_busy
from benchmarks.throughput.calibration import calibrate
from benchmarks.throughput.cells import Cell
from benchmarks.throughput.closing import print_closing
from benchmarks.throughput.host import Host, load_all
from benchmarks.throughput.lineup import why_not
from benchmarks.throughput.machine import describe_machine, installed_versions
from benchmarks.throughput.measure import measure_cell, needs_measured_ideal
from benchmarks.throughput.options import Options
from benchmarks.throughput.pictures import comparison, libraries
from benchmarks.throughput.results import RunResult
from benchmarks.throughput.rigs.catalogue import IDEAL
from benchmarks.throughput.storage import load, save
from benchmarks.throughput.table import print_cell
from benchmarks.throughput.watch import Watch

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_NARROWEST = 150


def main(options: Options) -> None:
    # Set before any library is imported, and inherited by every host and worker.
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    logs = options.output / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    console = Console()
    console.width = max(console.width, _NARROWEST)  # also where it is written to a file
    if options.busy:
        run_busy(options, console, logs)
        return
    file = options.output / "throughput.json"
    if options.redraw:
        run = load(file)
        for cell in run.cells:
            print_cell(console, cell)
    else:
        run = _run(options, console, file, logs)
    libraries.draw(run, options.output / "libraries.png")
    comparison.draw(run, options.output / "comparison.png")
    print_closing(console, run)
    console.print(f"Saved throughput.json, comparison.png and libraries.png in {options.output}")


def _run(options: Options, console: Console, file: Path, logs: Path) -> RunResult:
    start = time.monotonic()
    run = _nothing_yet(options)
    hosts = [Host(spec, logs) for spec in (*options.rigs, IDEAL) if _is_needed(spec.name, options)]
    try:
        with console.status("importing the libraries"):
            problems = load_all(hosts)
        with Watch(run.calibration) as watch:
            for cell in options.cells:
                in_cell = [host for host in hosts if host.spec is not IDEAL or needs_measured_ideal(cell)]
                not_here = {**_sitting_out(options, cell), **problems}
                with console.status(cell.title) as status:
                    result = measure_cell(cell, in_cell, not_here, run.calibration, options.plan, watch, status.update)
                print_cell(console, result)
                run = dataclasses.replace(run, cells=(*run.cells, result), seconds=round(time.monotonic() - start, 1))
                # What has been measured so far is kept, whatever happens next.
                save(run, file)
    finally:
        for host in hosts:
            host.end()
    startup = _measure_startup(options, logs, console)
    run = dataclasses.replace(run, startup=startup, seconds=round(time.monotonic() - start, 1))
    save(run, file)
    return run


def _nothing_yet(options: Options) -> RunResult:
    return RunResult(
        command=shlex.join(["python", "-m", "benchmarks.throughput", *sys.argv[1:]]),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=0.0,
        machine=describe_machine(),
        versions=installed_versions(["numpy", "torch", *(rig.distribution for rig in options.rigs)]),
        calibration=calibrate(),
        plan=options.plan,
        cells=(),
        startup=(),
    )


def _is_needed(name: str, options: Options) -> bool:
    """Whether this rig takes part in any cell; if not, its library need not be imported."""
    return not all(name in _sitting_out(options, cell) for cell in options.cells)


def _sitting_out(options: Options, cell: Cell) -> dict[str, str]:
    """Who does not take part in a cell, and why."""
    reasons = {rig.name: why_not(rig, cell, options.rigs_were_named) for rig in options.rigs}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _measure_startup(options: Options, logs: Path, console: Console) -> tuple[StartRecord, ...]:
    if not options.plan.startup_repeats:
        return ()
    with console.status("start-up") as status:
        rigs = starters(options.plan.startup_rigs)
        return measure_starts(rigs, options.plan.startup_repeats, logs, status.update)
