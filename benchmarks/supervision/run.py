"""The run: every cell on every backend, then the kills."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shlex
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.supervision.cells import CELLS, KILL_SECONDS
from benchmarks.supervision.kills import NUM_ENVS, NUM_WORKERS, KillResult, kill_once
from benchmarks.supervision.pairs import PairResult, Plan, measure_pairs
from benchmarks.throughput.calibration import calibrate
from benchmarks.throughput.machine import describe_machine, installed_versions
from benchmarks.throughput.watch import Watch

BACKENDS = ("shm", "pipes")
FULL = Plan(starts=3, pairs=15, turn_seconds=0.1, patience_seconds=3.0, warm_up_seconds=2.0)
QUICK = Plan(starts=1, pairs=7, turn_seconds=0.1, patience_seconds=0.5, warm_up_seconds=1.0)
KILLS_AFTER = (50, 500, 5000)
_SUSPECT_SHARE = 0.2


def main(arguments: Sequence[str]) -> None:
    options = _parse(arguments)
    plan: Plan = QUICK if options.quick else FULL
    os.environ["OMP_NUM_THREADS"] = "1"
    # A replacement is logged as a warning; here it is what was asked for.
    logging.getLogger("shoal").setLevel(logging.ERROR)
    logs = options.output / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    console = Console()
    console.width = max(console.width, 100)  # also where it is written to a file
    machine, calibration = describe_machine(), calibrate()
    pairs: list[PairResult] = []
    kills: list[KillResult] = []
    with Watch(calibration) as watch, console.status("measuring") as status:
        for priced in (priced for priced in CELLS if priced.name in options.cells):
            for backend in options.backends:
                result = measure_pairs(priced, backend, plan, calibration, watch, logs, status.update)
                pairs.append(result)
        for steps in KILLS_AFTER if options.kills else ():
            kills.append(KillResult(steps))
            for repeat in range(options.kills):
                status.update(f"kill {repeat + 1} of {options.kills} after {steps} steps")
                kill_once(kills[-1], seed=repeat)
    found = {
        "command": shlex.join(["python", "-m", "benchmarks.supervision", *arguments]),
        "machine": asdict(machine),
        "versions": installed_versions(["shoal", "gymnasium", "numpy"]),
        "plan": asdict(plan),
        "pairs": [asdict(pair) for pair in pairs],
        "kills": [asdict(kill) for kill in kills],
    }
    (options.output / "supervision.json").write_text(json.dumps(found, indent=2) + "\n")
    if pairs:
        _show_pairs(console, pairs)
    if kills:
        _show_kills(console, kills)
    console.print(f"Saved supervision.json in {options.output}")


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.supervision", description=__doc__)
    names = [priced.name for priced in CELLS]
    parser.add_argument("--quick", action="store_true", help="few pairs, under three minutes")
    parser.add_argument("--cells", type=_several(names), default=names, help=f"comma-separated, of {', '.join(names)}")
    parser.add_argument("--backends", type=_several(BACKENDS), default=list(BACKENDS), help="comma-separated")
    parser.add_argument("--kills", type=int, default=7, help="rollouts with a kill for each length; 0 for none")
    parser.add_argument("--output", type=Path, default=Path("benchmarks") / "results" / "supervision", metavar="DIR")
    return parser.parse_args(arguments)


class _several:  # noqa: N801 - argparse shows its name when a value is wrong
    """A comma-separated list of known names."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    def __call__(self, text: str) -> list[str]:
        chosen = [name.strip() for name in text.split(",") if name.strip()]
        for name in chosen:
            if name not in self._known:
                raise argparse.ArgumentTypeError(f"{name!r} is not known; known: {', '.join(self._known)}")
        return chosen


def _show_pairs(console: Console, pairs: Sequence[PairResult]) -> None:
    table = _table(
        'Time of a step with on_fault="restore", compared with on_fault="raise"',
        ("cell", "backend", "steps/s without", "steps/s with", "times as long", "overall", "target"),
    )
    for pair in pairs:
        low = "" if pair.ratio.low is None else f" [{pair.ratio.low:.3f}-{pair.ratio.high:.3f}]"
        rates = [f"{statistics.median(pair.rates[policy]):,.0f}" for policy in ("raise", "restore")]
        target = "" if pair.target is None else f"≤ {pair.target:.2f}"
        missed = pair.target is not None and pair.ratio.value > pair.target
        ratios = f"{pair.ratio.value:.3f}{low}", f"{pair.overall:.3f}"
        table.add_row(pair.title, pair.backend, *rates, *ratios, target, style="yellow" if missed else "")
    console.print(table)
    share = max(pair.disturbed_share for pair in pairs)
    if share > _SUSPECT_SHARE:
        console.print(
            f"suspect: up to {100 * share:.0f} % of the turns were taken on an unsteady machine", style="yellow"
        )


def _show_kills(console: Console, kills: Sequence[KillResult]) -> None:
    table = _table(
        f"One kill, {NUM_ENVS} environments of CartPole-v1 on shm with {NUM_WORKERS} workers: median (largest)",
        ("after steps", "step takes longer by", "stats.seconds_lost", "steps replayed", "target"),
    )
    for kill in kills:
        extra, lost = kill.extra_seconds, kill.seconds_lost
        table.add_row(
            str(kill.steps),
            f"{statistics.median(extra):.3f} s ({max(extra):.3f})",
            f"{statistics.median(lost):.3f} s ({max(lost):.3f})",
            f"{statistics.median(kill.replayed_steps):.0f} ({max(kill.replayed_steps)})",
            f"< {KILL_SECONDS} s",
            style="yellow" if statistics.median(extra) >= KILL_SECONDS else "",
        )
    console.print(table)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table
