"""A cell on the terminal: a table of its rigs, fastest first."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.throughput.ratios import Ratio
from benchmarks.throughput.results import CellResult, RigResult


def print_cell(console: Console, cell: CellResult) -> None:
    table = Table(title=cell.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("rig", no_wrap=True)
    table.add_column("steps/s", justify="right")
    table.add_column("of ideal", justify="right")
    table.add_column("of best peer", justify="right")
    for rig in cell.ran:
        table.add_row(
            rig.name if rig.way == "lockstep" else f"{rig.name}, halves",
            f"{rig.median:,.0f}",
            percent(rig.ratio_to_ideal),
            _standing(rig, cell),
            style={"shoal": "bold cyan", "reference": "dim"}.get(rig.role, ""),
        )
    console.print(table)
    if cell.default is not None and cell.default.remark is not None:
        console.print(f"{cell.default.name} runs on {cell.default.remark}", style="dim", highlight=False)
    if cell.suspect:
        console.print(
            f"suspect: {100 * cell.disturbed_share:.0f} % of the measurements were taken on an unsteady machine",
            style="yellow",
        )
    for reason, names in _absentees(cell).items():
        console.print(f"not run ({reason}): {', '.join(names)}", style="dim", highlight=False)


def percent(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    interval = "" if ratio.low is None else f" [{100 * ratio.low:.0f}-{100 * (ratio.high or 0):.0f}]"
    return f"{100 * ratio.value:.1f} %{interval}"


def times(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    interval = "" if ratio.low is None else f" [{ratio.low:.2f}-{ratio.high:.2f}]"
    return f"{ratio.value:.2f}x{interval}"


def _standing(rig: RigResult, cell: CellResult) -> str:
    if rig.role == "reference":
        return ""
    return "best peer" if rig.name == cell.best_peer else times(rig.ratio_to_best_peer)


def _absentees(cell: CellResult) -> dict[str, list[str]]:
    """The rigs without numbers, by reason."""
    absentees: dict[str, list[str]] = {}
    for rig in cell.rigs:
        if rig.not_run is not None:
            absentees.setdefault(rig.not_run, []).append(rig.name)
    return absentees
