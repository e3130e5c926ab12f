"""The whole run in one picture: every cell is a row, beside the best peer on the left, and beside the ideal on the right."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.ticker import FixedLocator, NullLocator

from benchmarks.throughput.pictures.style import FAINT, GRID, LOST, PEER, SHOAL, TEXT, prepare
from benchmarks.throughput.results import RigResult, RunResult
from benchmarks.throughput.summary import Duel, count, duels, median_ratio

_KINDS = {
    "computing": "computing",
    "data": "more data",
    "uneven": "uneven",
    "waiting": "waiting",
    "worlds": "worlds",
}
_ROWS_OF_A_HEADING = 3
"""It is written from the bottom to the top, and needs as much room."""
_ROW_INCHES = 0.255
_MARGIN_INCHES = 2.1
_LEFT_OF_THE_LINE = 0.6
"""A dot below this leaves room for its figure before the line at 1."""
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def draw(run: RunResult, path: Path) -> None:
    """Nothing is drawn of a run in which Shoal and its peers never met."""
    fought = duels(run)
    if not fought:
        return
    pyplot = prepare()
    rows = _rows(fought)
    height = _ROW_INCHES * (rows[-1] + 1) + _MARGIN_INCHES
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(11.5, height), sharey=True, gridspec_kw={"width_ratios": (1.5, 1)}
    )
    _draw_ratios(left, rows, fought)
    _draw_shares(right, rows, fought)
    _name_rows(left, rows, fought)
    # Fixed margins in inches, because the height follows from the number of rows.
    top, bottom = 1 - 1.25 / height, 0.85 / height
    figure.subplots_adjust(left=0.225, right=0.985, top=top, bottom=bottom, wspace=0.06)
    figure.text(0.012, 1 - 0.38 / height, _headline(fought), fontsize=14.5, fontweight="bold")
    figure.text(0.012, 1 - 0.63 / height, _subtitle(fought), fontsize=10, color=FAINT)
    figure.text(0.012, 0.1 / height, "\n".join(textwrap.wrap(_caption(run), 165)), fontsize=8.5, color=FAINT)
    figure.savefig(path, dpi=160, facecolor="white")
    pyplot.close(figure)


def _rows(fought: Sequence[Duel]) -> list[float]:
    """Where each cell stands, with a little room between kinds."""
    rows = [0.0]
    for above, below in pairwise(fought):
        rows.append(rows[-1] + (1.0 if above.cell.cell.kind == below.cell.cell.kind else 1.7))
    return rows


def _draw_ratios(panel: Any, rows: Sequence[float], fought: Sequence[Duel]) -> None:
    panel.set_xscale("log")
    panel.axvline(1.0, color=TEXT, linewidth=1.1, zorder=1)
    for row, duel in zip(rows, fought, strict=True):
        ratio, colour = duel.ratio, {"won": SHOAL, "even": FAINT, "lost": LOST}[duel.verdict]
        end = ratio.value
        if ratio.low is not None and ratio.high is not None:
            panel.plot([ratio.low, ratio.high], [row, row], color=colour, linewidth=1.6, solid_capstyle="round")
            end = max(end, ratio.high)
        panel.plot([ratio.value], [row], "o", color=colour, markersize=6, zorder=3)
        panel.annotate(
            f"{ratio.value:.2f} x" if ratio.value < 10 else f"{ratio.value:.0f} x",
            (end if end < _LEFT_OF_THE_LINE else max(end, 1.0), row), xytext=(6, 0), textcoords="offset points",
            va="center", fontsize=8.5, color=colour, fontweight="bold",
        )  # fmt: skip
        panel.annotate(
            duel.peer.name, (1.0, row), xycoords=("axes fraction", "data"), xytext=(-4, 0),
            textcoords="offset points", va="center", ha="right", fontsize=8, color=FAINT,
        )  # fmt: skip
    lows = [duel.ratio.low or duel.ratio.value for duel in fought]
    highs = [duel.ratio.high or duel.ratio.value for duel in fought]
    lowest = min(0.8, *lows) * 0.85
    # Room on the right for the names of the peers.
    panel.set_xlim(lowest, (max(2.0, *highs) / lowest) ** 1.55 * lowest)
    panel.xaxis.set_major_locator(FixedLocator([tick for tick in _TICKS if lowest <= tick <= 1.1 * max(2.0, *highs)]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g} x")
    panel.set_title("speed, as a multiple of the best peer (named at the right)", loc="left", fontsize=10, color=TEXT)
    _tidy(panel)


def _draw_shares(panel: Any, rows: Sequence[float], fought: Sequence[Duel]) -> None:
    for row, duel in zip(rows, fought, strict=True):
        ours, theirs = _share(duel.shoal), _share(duel.peer)
        if ours is None or theirs is None:
            panel.text(0.01, row, "no ideal is known", fontsize=8, color=FAINT, va="center")
            continue
        panel.plot([theirs, ours], [row, row], color=PEER, linewidth=2.2, solid_capstyle="round", zorder=1)
        panel.plot([theirs], [row], "o", color=PEER, markersize=6, zorder=2)
        panel.plot([ours], [row], "o", color=LOST if duel.verdict == "lost" else SHOAL, markersize=6, zorder=3)
    panel.axvline(1.0, color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    shares = [share for duel in fought for share in (_share(duel.shoal), _share(duel.peer)) if share is not None]
    panel.set_xlim(0, max(1.08, *shares, 1.0) + 0.04)
    panel.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    panel.set_title("share of ideal: best peer (grey), Shoal", loc="left", fontsize=10, color=TEXT)
    _tidy(panel)


def _name_rows(panel: Any, rows: Sequence[float], fought: Sequence[Duel]) -> None:
    panel.set_yticks(rows, [duel.cell.title for duel in fought])
    panel.set_ylim(rows[-1] + 0.8, -0.8)
    for label, duel in zip(panel.get_yticklabels(), fought, strict=True):
        label.set_fontsize(9)
        label.set_color(LOST if duel.verdict == "lost" else TEXT)
    kinds = [duel.cell.cell.kind for duel in fought]
    for kind in dict.fromkeys(kinds):
        own = [row for row, one in zip(rows, kinds, strict=True) if one == kind]
        if len(own) < _ROWS_OF_A_HEADING:
            continue
        panel.annotate(
            _KINDS[kind], (-0.385, (own[0] + own[-1]) / 2), xycoords=("axes fraction", "data"), rotation=90,
            va="center", ha="center", fontsize=9, fontweight="bold", color=FAINT, annotation_clip=False,
        )  # fmt: skip


def _tidy(panel: Any) -> None:
    panel.tick_params(length=0)
    panel.tick_params(axis="x", colors=FAINT, labelsize=8.5)
    panel.grid(axis="x", color=GRID, linewidth=0.8)
    panel.grid(axis="y", color=GRID, linewidth=0.6)
    panel.set_axisbelow(True)
    for side in ("top", "right", "bottom", "left"):
        panel.spines[side].set_visible(False)


def _share(rig: RigResult) -> float | None:
    return None if rig.ratio_to_ideal is None else rig.ratio_to_ideal.value


def _headline(fought: Sequence[Duel]) -> str:
    return f"Shoal is {median_ratio(fought):.1f} times as fast as the best peer (median of {len(fought)} cells)"


def _subtitle(fought: Sequence[Duel]) -> str:
    return (
        f'backend="auto", nothing chosen by hand. {count(fought, "won")} cells won, '
        f"{count(fought, 'even')} even, {count(fought, 'lost')} lost. Work per step x number of environments."
    )


def _caption(run: RunResult) -> str:
    machine = run.machine
    unsteady = sum(cell.suspect for cell in run.cells)
    busy = f"SUSPECT: the machine was unsteady in {unsteady} cells. " if unsteady else ""
    return (
        f"{busy}Best peer: the fastest of Gymnasium, Stable-Baselines3, Tianshou, TorchRL, PufferLib and EnvPool in that "
        f"cell, each as its documentation recommends. Ideal: bare loops on {machine.usable_cores} cores that never talk, "
        f"or all waiting at once. Medians of {run.plan.repeats} interleaved repeats, lines are 95 % intervals; "
        "grey: even, orange: lost. "
        f"{machine.processor}, Python {machine.python}."
    )
