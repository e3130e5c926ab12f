"""The picture for the README: how near each library comes to the ideal, cell by cell."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.throughput.results import CellResult, RigResult, RunResult

_COLUMNS = 3
_CAPTION_WIDTH = 70
_SHOAL = "#0b7a75"
_PEER = "#b8c4cc"
_TEXT = "#22303a"
_FAINT = "#6b7a85"


def draw(run: RunResult, path: Path) -> None:
    """One panel per cell, one bar per library: its fastest rig there."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    cells = [cell for cell in run.cells if cell.pictured] or list(run.cells)
    columns = min(_COLUMNS, len(cells))
    rows = math.ceil(len(cells) / columns)
    pyplot.rcParams.update({"font.size": 10, "text.color": _TEXT, "font.family": "sans-serif"})
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
    figure.text(0.012, 0.012, "\n".join(caption), fontsize=8.5, color=_FAINT, va="bottom")
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
        label.set_color(_SHOAL if rig.role == "shoal" else _TEXT)
        label.set_fontweight("bold" if rig.role == "shoal" else "normal")
    panel.invert_yaxis()
    panel.tick_params(length=0)
    panel.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    panel.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4))
    panel.tick_params(axis="x", colors=_FAINT, labelsize=8.5)
    panel.grid(axis="x", color="#e6ebee", linewidth=0.8)
    panel.set_axisbelow(True)
    for side in ("top", "right", "bottom", "left"):
        panel.spines[side].set_visible(False)
    ratios = [rig.ratio_to_ideal for rig in rigs if rig.ratio_to_ideal is not None]
    widest = max((max(ratio.value, ratio.high or 0.0) for ratio in ratios), default=1.0)
    # Room for the label at the end of the longest bar.
    panel.set_xlim(0, widest * 1.5)
    if widest > 0.5:
        panel.axvline(1.0, color=_FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        panel.annotate(
            "ideal",
            (1.0, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
            color=_FAINT,
        )


def _draw_bar(panel: Any, position: int, rig: RigResult) -> None:
    ratio = rig.ratio_to_ideal
    if ratio is None:
        panel.text(0, position, f" not run: {rig.not_run}", va="center", fontsize=8, color=_FAINT)
        return
    is_shoal = rig.role == "shoal"
    panel.barh(position, ratio.value, height=0.68, color=_SHOAL if is_shoal else _PEER)
    end = ratio.value
    if ratio.low is not None and ratio.high is not None:
        panel.plot([ratio.low, ratio.high], [position, position], color=_TEXT, linewidth=1.2)
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
        color=_SHOAL if is_shoal else _FAINT,
        # The line of the ideal must not run through the figures.
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
    )


def _fastest_per_library(cell: CellResult) -> list[RigResult]:
    """The same choice for everybody: a user of a library would take its fastest way too."""
    fastest: dict[str, RigResult] = {}
    for rig in cell.rigs:
        if rig.role == "reference":
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
