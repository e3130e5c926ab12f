"""How near each library comes to the ideal, in a few cells."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.ticker import MaxNLocator

from benchmarks.throughput.lineup import OWN_ENVIRONMENTS_ONLY
from benchmarks.throughput.pictures.style import FAINT, GRID, PEER, SHOAL, TEXT, prepare
from benchmarks.throughput.results import CellResult, RigResult, RunResult

_COLUMNS = 3
_CAPTION_WIDTH = 70


def draw(run: RunResult, path: Path) -> None:
    """One panel per cell, one bar per library: its fastest rig there."""
    pyplot = prepare()
    cells = [cell for cell in run.cells if cell.cell.pictured] or list(run.cells)
    columns = min(_COLUMNS, len(cells))
    rows = math.ceil(len(cells) / columns)
    figure, grid = pyplot.subplots(rows, columns, figsize=(4.6 * columns, 2.9 * rows + 0.9), squeeze=False)
    panels = list(grid.flat)
    for panel, cell in zip(panels, cells, strict=False):
        _draw_cell(panel, cell)
    for panel in panels[len(cells) :]:
        panel.set_axis_off()
    figure.suptitle(
        "Share of the ideal speed",
        x=0.012,
        y=0.985,
        ha="left",
        fontsize=14,
        fontweight="bold",
    )
    caption = textwrap.wrap(_caption(run, cells), _CAPTION_WIDTH * columns)
    figure.text(0.012, 0.012, "\n".join(caption), fontsize=8.5, color=FAINT, va="bottom")
    # A line of the caption is about 0.17 inches high.
    bottom = 0.02 + 0.17 * len(caption) / figure.get_figheight()
    figure.tight_layout(rect=(0, bottom, 1, 0.965), h_pad=2.2, w_pad=2.0)
    figure.savefig(path, dpi=160, facecolor="white")
    pyplot.close(figure)


def _draw_cell(panel: Any, cell: CellResult) -> None:
    rigs = _fastest_per_library(cell)
    for position, rig in enumerate(rigs):
        _draw_bar(panel, position, rig)
    panel.set_title(cell.title, loc="left", fontsize=11.5, fontweight="bold", pad=15)
    panel.set_yticks(range(len(rigs)), [rig.library for rig in rigs])
    for label, rig in zip(panel.get_yticklabels(), rigs, strict=True):
        label.set_color(SHOAL if rig.role == "shoal" else TEXT)
        label.set_fontweight("bold" if rig.role == "shoal" else "normal")
    panel.invert_yaxis()
    panel.tick_params(length=0)
    panel.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    panel.xaxis.set_major_locator(MaxNLocator(4))
    panel.tick_params(axis="x", colors=FAINT, labelsize=8.5)
    panel.grid(axis="x", color=GRID, linewidth=0.8)
    panel.set_axisbelow(True)
    for side in ("top", "right", "bottom", "left"):
        panel.spines[side].set_visible(False)
    ratios = [rig.ratio_to_ideal for rig in rigs if rig.ratio_to_ideal is not None]
    widest = max((max(ratio.value, ratio.high or 0.0) for ratio in ratios), default=1.0)
    # Room for the label at the end of the longest bar, and for the line of the ideal where it is near.
    is_near = widest > 0.5
    panel.set_xlim(0, max(widest * 1.5, 1.1 if is_near else 0.0))
    if is_near:
        panel.axvline(1.0, color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        panel.annotate(
            "ideal",
            (1.0, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
            color=FAINT,
        )


def _draw_bar(panel: Any, position: int, rig: RigResult) -> None:
    ratio = rig.ratio_to_ideal
    if ratio is None:
        panel.text(0, position, f" not run: {rig.not_run}", va="center", fontsize=8, color=FAINT)
        return
    is_shoal = rig.role == "shoal"
    panel.barh(position, ratio.value, height=0.68, color=SHOAL if is_shoal else PEER)
    end = ratio.value
    if ratio.low is not None and ratio.high is not None:
        panel.plot([ratio.low, ratio.high], [position, position], color=TEXT, linewidth=1.2)
        end = max(end, ratio.high)
    kind = rig.name.partition("-")[2]
    panel.annotate(
        f"{100 * ratio.value:.3g} %  {kind}",
        (end, position),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        fontweight="bold" if is_shoal else "normal",
        color=SHOAL if is_shoal else FAINT,
        # The line of the ideal must not run through the figures.
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
    )


def _fastest_per_library(cell: CellResult) -> list[RigResult]:
    """The same choice for everybody: a user of a library would take its fastest way too."""
    fastest: dict[str, RigResult] = {}
    for rig in cell.rigs:
        if rig.role == "reference" or rig.way != "lockstep" or rig.not_run == OWN_ENVIRONMENTS_ONLY:
            continue
        champion = fastest.get(rig.library)
        if champion is None or (rig.median or 0.0) > (champion.median or 0.0):
            fastest[rig.library] = rig
    return sorted(fastest.values(), key=lambda rig: -(rig.median or 0.0))


def _caption(run: RunResult, cells: Sequence[CellResult]) -> str:
    machine = run.machine
    busy = "SUSPECT: the machine was unsteady. " if any(cell.suspect for cell in cells) else ""
    return (
        f"{busy}Ideal: {machine.usable_cores} bare loops at once on {machine.usable_cores} cores. "
        f"Work per step x environments, lockstep; each library's fastest way of running. "
        f"Medians of {run.plan.repeats} interleaved repeats, lines are 95 % intervals. "
        f"{machine.processor}, Python {machine.python}."
    )
