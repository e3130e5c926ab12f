"""A run beside busy processes on the terminal, in Markdown: a table for each cell, then all ratios with their targets."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.throughput.busy.results import THEIR_LIKE, WORKERS, WORKERS_TARGET, BusyCell, BusyRun, target
from benchmarks.throughput.ratios import Ratio
from benchmarks.throughput.results import RigResult
from benchmarks.throughput.rigs.catalogue import DEFAULT
from benchmarks.throughput.table import times


def print_busy_cell(console: Console, title: str, found: Sequence[BusyCell]) -> None:
    """Steps per second of everybody, beside more and more processes."""
    table = _table("steps per second", *(f"beside {each.busy}" for each in found))
    for rig in found[0].rigs:
        rates = [_rate(each.rig(rig.name), is_best=each.best_peer == rig.name) for each in found]
        table.add_row(rig.name, *rates, style="bold cyan" if rig.role == "shoal" else "")
    console.print(f"\n[bold]{title}[/bold], beside busy processes (*: best peer)", highlight=False)
    console.print(table)
    for each in found:
        for rig in each.rigs:
            if rig.not_run is not None:
                console.print(f"beside {each.busy}, not run ({rig.not_run}): {rig.name}", style="dim", highlight=False)


def print_busy_closing(console: Console, run: BusyRun) -> None:
    like = THEIR_LIKE
    table = _table("cell", "busy", DEFAULT.name, "ran on", "best peer", "target", f"{WORKERS} / {like}", "target")
    for each in run.cells:
        wanted = target(each.busy)
        table.add_row(
            each.cell,
            str(each.busy),
            _judged(each.default_to_best_peer, wanted),
            next((rig.remark or "" for rig in each.rigs if rig.name == DEFAULT.name), ""),
            each.best_peer or "",
            f">= {wanted:.2f}",
            _judged(each.workers_to_their_like, WORKERS_TARGET),
            f">= {WORKERS_TARGET:.2f}",
        )
    console.print("\n[bold]All ratios[/bold], of medians, with 95 % intervals", highlight=False)
    console.print(table)
    machine, plan = run.machine, run.plan
    console.print(
        f"\n{machine.processor}, {machine.usable_cores} usable cores, Python {machine.python}, load {machine.load_before} "
        f"before the run, {plan.repeats} repeats, each of {plan.turn_seconds:g} s after {plan.warm_up_seconds:g} s, "
        f"{run.seconds / 60:.0f} minutes",
        highlight=False,
    )
    console.print(", ".join(f"{name} {version}" for name, version in run.versions.items()))
    console.print(f"Repeat it with: {run.command}", highlight=False)


def _rate(rig: RigResult, *, is_best: bool) -> str:
    return "" if rig.median is None else f"{rig.median:,.0f}{'*' if is_best else ''}"


def _judged(ratio: Ratio | None, wanted: float) -> str:
    if ratio is None:
        return ""
    return times(ratio) if ratio.value >= wanted else f"[yellow]{times(ratio)} missed"


def _table(first: str, *others: str) -> Table:
    table = Table(box=MARKDOWN)
    for name in (first, *others):
        table.add_column(name, justify="left" if name in (first, "ran on", "best peer") else "right", no_wrap=True)
    return table
