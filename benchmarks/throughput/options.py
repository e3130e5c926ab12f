"""The command line: which cells, which rigs, how often, and where the results go.

Read before the peers' environment is made, so that a mistyped name costs no installation; therefore
only the standard library and plain data are imported here.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.throughput.cells import BUSY_CELLS, CELLS, Cell
from benchmarks.throughput.plan import BUSY, FULL, QUICK, QUICK_BUSY, BusyPlan, Plan
from benchmarks.throughput.rigs.catalogue import BUSY_RIGS, CONTESTANTS, RigSpec

_OUTPUT = Path("benchmarks") / "results" / "throughput"


@dataclass(frozen=True)
class Options:
    cells: tuple[Cell, ...]
    rigs: tuple[RigSpec, ...]
    rigs_were_named: bool
    """If so, each takes part in every cell in which it can."""
    plan: Plan
    output: Path
    busy: tuple[int, ...]
    """Beside how many busy processes, one number after the other; if none is given, the machine should do nothing else."""
    busy_plan: BusyPlan
    redraw: bool
    """Whether to show once more what was measured before, instead of measuring."""


def parse(arguments: Sequence[str]) -> Options:
    """Understand the command line, or leave with a message."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.busy and given.redraw:
        parser.error("--redraw shows a run without --busy")
    plan, busy_plan = (QUICK, QUICK_BUSY) if given.quick else (FULL, BUSY)
    cells, rigs = given.cells, given.rigs
    if given.busy:
        cells, rigs = cells or BUSY_CELLS, rigs or BUSY_RIGS
    if given.repeats is not None:
        plan = dataclasses.replace(plan, repeats=given.repeats)
        busy_plan = dataclasses.replace(busy_plan, repeats=given.repeats)
    if given.no_startup:
        plan = dataclasses.replace(plan, startup_repeats=0)
    return Options(
        cells=_cells(cells, given.quick),
        rigs=_rigs(rigs, given.quick),
        rigs_were_named=given.rigs is not None,
        plan=plan,
        output=given.output,
        busy=given.busy,
        busy_plan=busy_plan,
        redraw=given.redraw,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.throughput",
        description="Shoal and its peers side by side, as ratios to each other and to what the machine can do.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a few cells, one or two rigs per library, under two minutes"
    )
    parser.add_argument(
        "--cells",
        type=lambda text: _known(parser, "cell", text, [cell.name for cell in CELLS]),
        help="comma-separated, such as 300us-x20,50us-x20",
    )
    parser.add_argument(
        "--rigs",
        type=lambda text: _known(parser, "rig", text, [rig.name for rig in CONTESTANTS]),
        help="comma-separated, such as shoal-auto,gymnasium-async; ideal always takes part, but not beside busy processes",
    )
    parser.add_argument(
        "--busy",
        type=_numbers,
        default=(),
        metavar="NUMBERS",
        help="beside so many busy processes, such as 0,1,2,4; without --cells and --rigs, a few cells and rigs",
    )
    parser.add_argument("--repeats", type=_positive, help="repeats per cell and rig")
    parser.add_argument("--no-startup", action="store_true", help="leave out start-up time and memory")
    parser.add_argument("--redraw", action="store_true", help="show again what is in DIR, and measure nothing")
    parser.add_argument("--output", type=Path, default=_OUTPUT, metavar="DIR")
    return parser


def _known(parser: argparse.ArgumentParser, kind: str, text: str, names: Sequence[str]) -> tuple[str, ...]:
    chosen = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in chosen:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
            parser.error(f"no {kind} is called {name!r}; {hint}")
    return chosen


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a number of repeats; use 1 or more")
    return number


def _numbers(text: str) -> tuple[int, ...]:
    numbers = text.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers of processes; give one such as 0,1,2,4")
    return tuple(int(number) for number in numbers)


def _cells(names: Sequence[str] | None, quick: bool) -> tuple[Cell, ...]:
    if names is not None:
        return tuple(cell for cell in CELLS if cell.name in names)
    return tuple(cell for cell in CELLS if cell.quick or not quick)


def _rigs(names: Sequence[str] | None, quick: bool) -> tuple[RigSpec, ...]:
    if names is not None:
        return tuple(rig for rig in CONTESTANTS if rig.name in names)
    return tuple(rig for rig in CONTESTANTS if (rig.quick if quick else not rig.on_request))
