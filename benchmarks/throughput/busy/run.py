"""The same work beside busy processes: who keeps how much of its speed when it does not have the machine to itself?

    for each cell, for each number of busy processes (which run all the while):
        repeat 1:  start A · step 3 s · measure · close    start B · step 3 s · measure · close    …
        repeat 2:  …

Every turn starts afresh, so that a library which decides how to run does so beside these processes, and has 3 s for it.
Between its turns a contestant has no environments and no workers. Whether the machine is steady cannot be asked here, and
there is no ideal: how much of a core is left is for the system to say.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks.busy_processes import busy_processes
from benchmarks.throughput.busy.results import BusyCell, BusyRun
from benchmarks.throughput.busy.table import print_busy_cell, print_busy_closing
from benchmarks.throughput.calibration import calibrate
from benchmarks.throughput.cells import Cell
from benchmarks.throughput.comparing import with_medians
from benchmarks.throughput.contestant import rounds_lasting
from benchmarks.throughput.host import Host, RigError, load_all
from benchmarks.throughput.lineup import why_not
from benchmarks.throughput.machine import describe_machine, installed_versions
from benchmarks.throughput.options import Options
from benchmarks.throughput.plan import BusyPlan
from benchmarks.throughput.results import RigResult
from benchmarks.throughput.workload import Workload, workload_of

_FIRST_ROUNDS = 2
_WARM_UP_PIECE = 0.25


def run_busy(options: Options, console: Console, logs: Path) -> None:
    """Measure every cell beside every number of busy processes; print and save as it goes."""
    start = time.monotonic()
    run = BusyRun(
        command=shlex.join(["python", "-m", "benchmarks.throughput", *sys.argv[1:]]),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=0.0,
        machine=describe_machine(),
        versions=installed_versions(["numpy", *(rig.distribution for rig in options.rigs)]),
        calibration=calibrate(),
        plan=options.busy_plan,
        cells=(),
    )
    file = options.output / "busy.json"
    hosts = [Host(spec, logs) for spec in options.rigs]
    try:
        with console.status("importing the libraries"):
            problems = load_all(hosts)
        for cell in options.cells:
            found = []
            for number in options.busy:
                with console.status("") as status, busy_processes(number):
                    found.append(_measure(cell, number, hosts, problems, run, status.update))
                run = dataclasses.replace(
                    run, cells=(*run.cells, found[-1]), seconds=round(time.monotonic() - start, 1)
                )
                # What has been measured so far is kept, whatever happens next.
                file.write_text(json.dumps(dataclasses.asdict(run), indent=2) + "\n")
            print_busy_cell(console, cell.title, found)
    finally:
        for host in hosts:
            host.end()
    print_busy_closing(console, run)
    console.print(f"Saved {file}", highlight=False)


def _measure(
    cell: Cell, number: int, hosts: Sequence[Host], problems: dict[str, str], run: BusyRun, say: Callable[[str], None]
) -> BusyCell:
    turns = [_Turns(host, workload_of(cell, run.calibration), run.plan) for host in hosts]
    for each in turns:
        spec = each.host.spec
        each.problem = problems.get(spec.name) or why_not(spec, cell, was_named=True)
    for repeat in range(run.plan.repeats):
        for each in turns:
            say(f"{cell.title}, {number} busy: repeat {repeat + 1} of {run.plan.repeats}, {each.host.spec.name}")
            each.take_one()
    return BusyCell.of(cell.name, number, with_medians([each.result() for each in turns]))


class _Turns:
    """Those of one contestant beside so many busy processes; a failure takes it out for good."""

    problem: str | None = None

    def __init__(self, host: Host, workload: Workload, plan: BusyPlan) -> None:
        self.host = host
        self._workload, self._plan = workload, plan
        self._rates: list[float] = []
        self._remarks: Counter[str] = Counter()

    def take_one(self) -> None:
        if self.problem is not None:
            return
        try:
            self._rates.append(self._rate())
        except RigError as failure:
            self.problem = str(failure)

    def result(self) -> RigResult:
        spec = self.host.spec
        # One that failed halfway has no comparable rates.
        rates = tuple(self._rates) if self.problem is None else ()
        remark = ", ".join(f"{remark} ({count} x)" for remark, count in self._remarks.most_common()) or None
        return RigResult(
            spec.name, spec.library, spec.role, spec.way, None, rates, 0, remark=remark, not_run=self.problem
        )

    def _rate(self) -> float:
        host, plan = self.host, self._plan
        host.start(self._workload)
        end = time.monotonic() + plan.warm_up_seconds
        rate = host.measure(_FIRST_ROUNDS)
        while time.monotonic() < end:
            rate = host.measure(self._rounds_lasting(_WARM_UP_PIECE, rate))
        rate = host.measure(self._rounds_lasting(plan.turn_seconds, rate))
        if (remark := host.remark()) is not None:
            self._remarks[remark.partition(":")[0]] += 1
        host.close()
        return rate

    def _rounds_lasting(self, seconds: float, rate: float) -> int:
        return rounds_lasting(seconds, rate, self._workload.num_envs)
