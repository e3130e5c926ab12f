"""The run on the terminal: one table per cell, fastest first."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.throughput.results import CellResult, Ratio, RunResult


def print_run(console: Console, run: RunResult) -> None:
    machine = run.machine
    console.print(
        f"\n{machine.processor}, {machine.usable_cores} usable cores, Python {machine.python}, "
        f"load {machine.load_before} before the run, {run.plan.repeats} repeats"
    )
    console.print(", ".join(f"{name} {version}" for name, version in run.versions.items()))
    console.print(f"Repeat it with: {run.command}", highlight=False)


def print_cell(console: Console, cell: CellResult) -> None:
    table = Table(title=cell.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("rig", no_wrap=True)
    table.add_column("steps/s", justify="right")
    table.add_column("of ideal", justify="right")
    table.add_column("of best peer", justify="right")
    ran = [rig for rig in cell.rigs if rig.median is not None]
    for rig in sorted(ran, key=lambda rig: -(rig.median or 0.0)):
        table.add_row(
            rig.name,
            f"{rig.median:,.0f}",
            _percent(rig.ratio_to_ideal),
            "best peer" if rig.name == cell.best_peer else _times(rig.ratio_to_best_peer),
            style={"shoal": "bold cyan", "reference": "dim"}.get(rig.role, ""),
        )
    console.print(table)
    if cell.suspect:
        console.print(
            f"suspect: {100 * cell.disturbed_share:.0f} % of the measurements were taken on an unsteady machine",
            style="yellow",
        )
    for reason, names in _absentees(cell).items():
        console.print(f"not run ({reason}): {', '.join(names)}", style="dim", highlight=False)


def _absentees(cell: CellResult) -> dict[str, list[str]]:
    """The rigs without numbers, by reason."""
    absentees: dict[str, list[str]] = {}
    for rig in cell.rigs:
        if rig.not_run is not None:
            absentees.setdefault(rig.not_run, []).append(rig.name)
    return absentees


def _percent(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    interval = "" if ratio.low is None else f" [{100 * ratio.low:.0f}-{100 * (ratio.high or 0):.0f}]"
    return f"{100 * ratio.value:.1f} %{interval}"


def _times(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    interval = "" if ratio.low is None else f" [{ratio.low:.2f}-{ratio.high:.2f}]"
    return f"{ratio.value:.2f}x{interval}"
