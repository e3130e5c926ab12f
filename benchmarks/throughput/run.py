"""A whole run: calibrate, load every library, measure cell after cell, save and show."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console

from benchmarks import peers_venv
from benchmarks.throughput.calibration import calibrate
from benchmarks.throughput.host import Host, RigError
from benchmarks.throughput.machine import describe_machine, installed_versions
from benchmarks.throughput.measure import measure_cell
from benchmarks.throughput.options import Options
from benchmarks.throughput.picture import draw
from benchmarks.throughput.results import CellResult, RunResult
from benchmarks.throughput.rigs.catalogue import IDEAL
from benchmarks.throughput.table import print_cell, print_run
from benchmarks.throughput.watch import Watch

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def main(options: Options) -> None:
    # Set before any library is imported, and inherited by every host and worker.
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    options.output.mkdir(parents=True, exist_ok=True)
    console = Console()
    run = _run(options, console)
    run.save(options.output / "throughput.json")
    draw(run, options.output / "throughput.png")
    print_run(console, run)
    console.print(f"Saved throughput.json and throughput.png in {options.output}")


def _run(options: Options, console: Console) -> RunResult:
    started, start = datetime.now(UTC), time.monotonic()
    machine, calibration = describe_machine(), calibrate()
    logs = options.output / "logs"
    logs.mkdir(exist_ok=True)
    hosts = [Host(spec, logs) for spec in (*options.rigs, IDEAL)]
    results: list[CellResult] = []
    try:
        with console.status("importing the libraries"):
            problems = _load(hosts)
        with Watch(calibration) as watch:
            for cell in options.cells:
                in_cell = [host for host in hosts if host.spec is IDEAL or host.spec.family in cell.families]
                with console.status(cell.title) as status:
                    result = measure_cell(cell, in_cell, problems, calibration, options.plan, watch, status.update)
                print_cell(console, result)
                results.append(result)
    finally:
        for host in hosts:
            host.end()
    return RunResult(
        command=shlex.join(["python", "-m", "benchmarks.throughput", *sys.argv[1:]]),
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - start, 1),
        machine=machine,
        versions=installed_versions(["numpy", "torch", *(rig.distribution for rig in options.rigs)]),
        calibration=calibration,
        plan=options.plan,
        cells=tuple(results),
    )


def _load(hosts: Sequence[Host]) -> dict[str, str]:
    """Import every library, each in its host, all at once; return who could not and why."""
    installation = peers_venv.installation_problems()
    problems = {}
    for host in hosts:
        host.launch()
    for host in hosts:
        try:
            host.wait_until_loaded()
        except RigError as failure:
            reason = installation.get(host.spec.distribution)
            problems[host.spec.name] = f"not installed: {reason}" if reason else str(failure)
    return problems
