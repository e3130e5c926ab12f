"""The learning curve of a run, as a picture that one would show: returns over steps, and below them how fast it went."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shoal.runs.durable import reason_of
from shoal.vector.errors import ConfigurationError, StateError

RETURN, SPEED, RESTARTS = "charts/episodic_return", "charts/SPS", "charts/restarts"
OF_EPISODE = "metrics/return_train_episode_"
"""Where a task has several episodes: what the first of them brought, the second, ..."""
LOSSES = {"losses/policy_loss": "policy loss", "losses/value_loss": "value loss", "losses/entropy": "entropy"}
TEXT, FAINT, GRID = "#22303a", "#6b7a85", "#e6eaed"
TEAL, BLUE, RED, AMBER = "#0b7a75", "#5b9bd5", "#d9534f", "#f0ad4e"

Array = np.ndarray[Any, np.dtype[np.float64]]


class Series(NamedTuple):
    """A metric over the steps of a run."""

    steps: Array
    values: Array


def draw_learning_curve(metrics: Sequence[Mapping[str, Any]], path: str | os.PathLike[str], title: str) -> Path:
    """Draw what :func:`read_metrics` returns; the ending of ``path`` says which kind of picture. Returns the path."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ModuleNotFoundError as error:
        raise ConfigurationError("the learning curve needs matplotlib: pip install 'shoal[train]'") from error
    *earlier, returns = _by_episode(metrics) or [_series(metrics, RETURN)]
    if not len(returns.steps):
        raise StateError(
            f"there is nothing to draw: none of {len(metrics)} lines of metrics has a number for {RETURN!r}. "
            "It is there once the first episode is complete."
        )
    speed = _series(metrics, SPEED)
    losses = {label: series for name, label in LOSSES.items() if len((series := _series(metrics, name)).steps)}
    has_second = bool(len(speed.steps) or losses)
    layout = ConstrainedLayoutEngine(w_pad=0.2, h_pad=0.16, hspace=0.04)
    figure = Figure(figsize=(9, 5.8 if has_second else 4.4), layout=layout)
    panels = np.atleast_1d(figure.subplots(1 + has_second, 1, sharex=True, height_ratios=[3, 1][: 1 + has_second]))
    _draw_returns(panels[0], returns, earlier, title)
    _mark_restarts(panels[0], _series(metrics, RESTARTS))
    _explain(panels[0])
    if len(speed.steps):
        _draw_speed(panels[1], speed)
    elif losses:
        _draw_losses(panels[1], losses)
    _finish_steps(panels[-1], metrics)
    figure.align_ylabels()
    _save(figure, Path(path))
    return Path(path)


def _series(metrics: Sequence[Mapping[str, Any]], name: str) -> Series:
    """Only where there is a number: returns are not known before the first episode ends, and ``null`` is no number."""
    points = [
        (line["step"], line[name]) for line in metrics if _is_number(line.get("step")) and _is_number(line.get(name))
    ]
    columns = np.array(points, dtype=np.float64).reshape(-1, 2)
    return Series(columns[:, 0], columns[:, 1])


def _by_episode(metrics: Sequence[Mapping[str, Any]]) -> list[Series]:
    """The returns of the first episode of tasks, of the second, and so on; none where a task is one episode."""
    episodes: list[Series] = []
    while len((series := _series(metrics, f"{OF_EPISODE}{len(episodes) + 1}")).steps):
        episodes.append(series)
    return episodes if len(episodes) > 1 else []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _draw_returns(panel: Any, returns: Series, earlier: Sequence[Series], title: str) -> None:
    """``earlier`` are those of a task's episodes before its last."""
    best = int(returns.values.argmax())
    for number, one in enumerate(earlier, start=1):
        colour = {"color": TEAL, "alpha": number / (len(earlier) + 1)}
        label = f"episode {number}" if number == 1 else str(number)
        panel.plot(one.steps, one.values, **colour, linewidth=1.2, zorder=3, label=label)
    label, whose = (str(len(earlier) + 1), f"episode {len(earlier) + 1}: ") if earlier else ("", "")
    panel.plot(
        returns.steps, returns.values, color=TEAL, linewidth=2.0, solid_capstyle="round", zorder=3, label=label or None
    )
    if len(returns.steps) == 1:
        panel.plot(returns.steps, returns.values, "o", color=TEAL, markersize=6, zorder=4)
    low, high = _room(np.concatenate([one.values for one in (*earlier, returns)]))
    panel.set_ylim(low, high)
    panel.fill_between(returns.steps, returns.values, low, color=TEAL, alpha=0.10, linewidth=0, zorder=2)
    panel.plot(
        returns.steps[best], returns.values[best], "o",
        color="white", markeredgecolor=TEAL, markeredgewidth=1.8, markersize=7, zorder=5, clip_on=False,
    )  # fmt: skip
    panel.set_title(title, loc="left", fontsize=13, fontweight="bold", color=TEXT, pad=26)
    panel.text(
        0, 1.035, f"{whose}best {_short(returns.values[best])} at step {_thousands(returns.steps[best])}"
        f"   ·   last {_short(returns.values[-1])} at step {_thousands(returns.steps[-1])}",
        transform=panel.transAxes, fontsize=9.5, color=FAINT,
    )  # fmt: skip
    _dress(panel, "mean return")


def _mark_restarts(panel: Any, restarts: Series) -> None:
    """Where workers were replaced: the curve goes on, and the marks say that nothing was lost there."""
    times = restarts.steps[1:][np.diff(restarts.values) > 0]
    if len(times):
        panel.plot(
            times, np.zeros(len(times)), "^",
            color=RED, markersize=6, transform=panel.get_xaxis_transform(), clip_on=False, zorder=6,
            label="a worker was replaced",
        )  # fmt: skip


def _draw_speed(panel: Any, speed: Series) -> None:
    middle = float(np.median(speed.values))
    panel.plot(speed.steps, speed.values, color=BLUE, linewidth=0.8, alpha=0.45)
    panel.plot(speed.steps, _smooth(speed.values), color=BLUE, linewidth=1.8)
    panel.set_ylim(0, 1.25 * float(np.quantile(speed.values, 0.98)) or 1.0)
    panel.text(
        0.995, 0.06, f"median {_thousands(middle)}",
        transform=panel.transAxes, ha="right", fontsize=9, color=FAINT,
    )  # fmt: skip
    panel.yaxis.set_major_formatter(lambda value, _: _thousands(value))
    _dress(panel, "steps / s")


def _draw_losses(panel: Any, losses: Mapping[str, Series]) -> None:
    for (label, series), colour in zip(losses.items(), (BLUE, AMBER, RED), strict=False):
        panel.plot(series.steps, _smooth(series.values), color=colour, linewidth=1.5, label=label)
    _explain(panel)
    _dress(panel, "losses")


def _explain(panel: Any) -> None:
    """Above the panel, where nothing is drawn."""
    handles, labels = panel.get_legend_handles_labels()
    if not handles:
        return
    panel.legend(
        handles, labels, ncols=len(handles),
        loc="lower right", bbox_to_anchor=(1.0, 0.985), frameon=False, fontsize=9, labelcolor=FAINT,
        handlelength=1.4, handletextpad=0.5, borderaxespad=0.2,
    )  # fmt: skip


def _smooth(values: Array) -> Array:
    """The median of each value's neighbours: what one slow update does not bend."""
    width = max(1, len(values) // 50)
    return np.array([np.median(values[max(0, at - width) : at + width + 1]) for at in range(len(values))])


def _room(values: Array) -> tuple[float, float]:
    """Some air around the curve; from zero on if that is near."""
    low, high = float(values.min()), float(values.max())
    margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    return (0.0 if 0 <= low < 0.5 * high else low - margin), high + margin


def _dress(panel: Any, label: str) -> None:
    panel.set_ylabel(label, color=FAINT, fontsize=10)
    panel.grid(axis="y", color=GRID, linewidth=0.9, zorder=0)
    panel.set_axisbelow(True)
    panel.tick_params(length=0, colors=FAINT, labelsize=9)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    panel.spines["bottom"].set_color("#c6ced6")


def _finish_steps(panel: Any, metrics: Sequence[Mapping[str, Any]]) -> None:
    steps = [line["step"] for line in metrics if _is_number(line.get("step"))]
    panel.set_xlim(0, max([*steps, 1]))
    panel.set_xlabel("environment steps", color=FAINT, fontsize=10)
    panel.xaxis.set_major_formatter(lambda value, _: _thousands(value))


def _thousands(value: float) -> str:
    """As people say it: 950, 12 k, 1.5 M."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _save(figure: Any, path: Path) -> None:
    """Under another name first, so that a viewer never meets half a picture."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in figure.canvas.get_supported_filetypes():
        raise ConfigurationError(f"a picture's name ends in .png, .svg or .pdf, got {str(path)!r}")
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        figure.savefig(unfinished, format=kind, dpi=160, facecolor="white")
        os.replace(unfinished, path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise StateError(f"the learning curve cannot be written to {path}: {reason_of(error)}") from error
