"""What the profiler costs while it is on: the same environments with it and without, turn by turn.

``python -m benchmarks.profiling``
"""

from __future__ import annotations

import argparse
import contextlib
import time

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import shoal
from benchmarks.throughput.calibration import Calibration, calibrate
from benchmarks.throughput.cells import Cell
from benchmarks.throughput.ratios import Ratio, paired_ratio
from benchmarks.throughput.watch import Watch
from benchmarks.throughput.workload import workload_of

CELLS = (
    ("serial", Cell(0, 2)),
    ("serial", Cell(0, 200)),
    ("shm", Cell(0, 64)),
    ("shm", Cell(50, 20)),
    ("shm", Cell(300, 20)),
)
TARGET = 1.02
"""A step should take at most so many times as long."""
TURN_SECONDS, PATIENCE_SECONDS = 1.0, 2.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiling", description=__doc__)
    parser.add_argument("--pairs", type=int, default=15)
    pairs: int = parser.parse_args().pairs
    console, calibration = Console(), calibrate()
    table = Table(title="Time of a step with the profiler, compared with none", title_justify="left", box=SIMPLE_HEAD)
    for name in ("cell", "backend", "times as long", "target", "unsteady"):
        table.add_column(name, justify="left" if name == "cell" else "right")
    with Watch(calibration) as watch, console.status("measuring"):
        for backend, cell in CELLS:
            ratio, disturbed = _measure(backend, cell, pairs, calibration, watch)
            interval = "" if ratio.low is None else f" [{ratio.low:.3f}-{ratio.high:.3f}]"
            share = f"{disturbed / (2 * pairs):.0%}"
            missed = "yellow" if ratio.value > TARGET else ""
            table.add_row(cell.title, backend, f"{ratio.value:.3f}{interval}", f"≤ {TARGET}", share, style=missed)
    console.print(table)


def _measure(backend: str, cell: Cell, pairs: int, calibration: Calibration, watch: Watch) -> tuple[Ratio, int]:
    """The median of the pairs, and how many turns met an unsteady machine."""
    workload = workload_of(cell, calibration)
    actions = workload.action_batches()[0]
    rates: dict[bool, list[float]] = {True: [], False: []}
    disturbed = 0
    with shoal.ParallelEnv(workload.env_fns(), backend=backend) as envs:
        envs.reset(seed=0)
        rounds = max(20, int(TURN_SECONDS / _seconds(envs, actions, 200) * 200))
        for pair in range(pairs):
            for is_profiled in (True, False) if pair % 2 else (False, True):

                def turn(is_profiled: bool = is_profiled) -> float:
                    with envs.profile() if is_profiled else contextlib.nullcontext():
                        _seconds(envs, actions, 20)
                        return rounds / _seconds(envs, actions, rounds)

                rate = watch.steady_rate(turn, PATIENCE_SECONDS)
                rates[is_profiled].append(rate.value)
                disturbed += not rate.steady
    return paired_ratio(rates[False], rates[True]), disturbed


def _seconds(envs: shoal.ParallelEnv, actions: np.ndarray, rounds: int) -> float:
    begin = time.perf_counter()
    for _ in range(rounds):
        envs.step(actions)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
