"""The end of a run on the terminal: every cell in one line, lost ones marked, then what it comes to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.startup.starts import starts_table
from benchmarks.throughput.results import RunResult
from benchmarks.throughput.summary import Duel, count, duels, duels_by_halves, median_ratio
from benchmarks.throughput.table import percent, times

_STYLES = {"won": "", "even": "dim", "lost": "bold yellow"}


def print_closing(console: Console, run: RunResult) -> None:
    _print_duels(console, "Shoal as it comes (auto) and the best peer of each cell", duels(run))
    _print_duels(console, "Half of the environments at a time, and the best peer of all", duels_by_halves(run))
    if run.startup:
        console.print(starts_table(run.startup))
    machine = run.machine
    console.print(
        f"\n{machine.processor}, {machine.usable_cores} usable cores, Python {machine.python}, "
        f"load {machine.load_before} before the run, {run.plan.repeats} repeats, {run.seconds / 60:.0f} minutes"
    )
    console.print(", ".join(f"{name} {version}" for name, version in run.versions.items()))
    console.print(f"Repeat it with: {run.command}", highlight=False)


def _print_duels(console: Console, title: str, fought: Sequence[Duel]) -> None:
    if not fought:
        return
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in ("cell", "shoal", "steps/s", "of ideal", "best peer", "steps/s", "shoal is", ""):
        table.add_column(name, justify="right" if name in ("steps/s", "of ideal", "shoal is") else "left", no_wrap=True)
    for duel in fought:
        table.add_row(
            duel.cell.name,
            _how(duel),
            f"{duel.shoal.median:,.0f}",
            percent(duel.shoal.ratio_to_ideal),
            duel.peer.name,
            f"{duel.peer.median:,.0f}",
            times(duel.ratio),
            duel.verdict + ("?" if duel.cell.suspect else ""),
            style=_STYLES[duel.verdict],
        )
    console.print(table)
    console.print(
        f"Median over {len(fought)} cells: {median_ratio(fought):.2f} times the best peer; "
        f"{count(fought, 'won')} won, {count(fought, 'even')} even, {count(fought, 'lost')} lost",
        style="bold",
    )
    if any(duel.cell.suspect for duel in fought):
        console.print("?: not to be relied on, because the machine was unsteady", style="yellow")


def _how(duel: Duel) -> str:
    """Which rig it is, and the backend that auto chose."""
    kind = duel.shoal.name.partition("-")[2]
    return kind if duel.shoal.remark is None else f"{kind}: {duel.shoal.remark.partition(',')[0].partition(':')[0]}"
