"""The timeline of a few rounds as a picture: who did what, and what those who did nothing were waiting for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.vector.errors import ConfigurationError, StateError
from shoal.vector.profile.tracks import SHARES, Pieces, Share

if TYPE_CHECKING:
    from shoal.vector.profile.result import Profile

ROUNDS = 5
COLOURS = {
    Share.ENVIRONMENT: "#0b7a75", Share.BARRIER: "#d9534f", Share.COPYING: "#f0ad4e", Share.SIGNALLING: "#8e7cc3",
    Share.INFOS: "#e8c547", Share.MANAGEMENT: "#9aa5ad", Share.POLICY: "#5b9bd5",
}  # fmt: skip
TEXT, FAINT = "#22303a", "#6b7a85"


def draw(profile: Profile, path: Path) -> None:
    """Draw it."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "the picture of a profile needs matplotlib: pip install 'shoal[profile]'. (A trace, save_trace(), needs nothing.)"
        ) from error
    if not profile.seconds:
        raise StateError("nothing was recorded, so there is nothing to draw: step the environments inside the block")
    caller, *workers = profile.tracks
    pieces = Pieces(caller, workers)
    rows = pieces.reasons()
    height = 2.6 + 0.42 * len(rows)
    figure = Figure(figsize=(11, height))
    bar, timeline = figure.subplots(2, 1, gridspec_kw={"height_ratios": [1, max(1.2, 0.6 * len(rows))]})
    _draw_shares(bar, profile)
    _draw_timeline(timeline, pieces, rows, has_workers=bool(workers))
    figure.suptitle(
        f"{profile.num_envs} environments, {profile.plan.backend}: {profile.steps_per_second:,.0f} steps per second, "
        f"{profile.efficiency:.0%} of the ideal",
        x=0.012, ha="left", fontsize=13, fontweight="bold", color=TEXT,
    )  # fmt: skip
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(path, dpi=150, facecolor="white")


def _draw_shares(panel: Any, profile: Profile) -> None:
    left = 0.0
    for share in SHARES:
        value = profile.shares[share.value]
        panel.barh(0, value, left=left, color=COLOURS[share], label=f"{share.value} {value:.0%}", edgecolor="white")
        left += value
    panel.set_xlim(0, 1)
    panel.set_axis_off()
    panel.legend(loc="lower center", bbox_to_anchor=(0.5, -0.75), ncols=4, frameon=False, fontsize=9, labelcolor=TEXT)


def _draw_timeline(panel: Any, pieces: Pieces, rows: list[Any], *, has_workers: bool) -> None:
    begin, end = _middle(pieces)
    chosen = (pieces.moments >= begin) & (pieces.moments < end)
    starts = (pieces.moments[chosen] - begin) / 1e6
    widths = pieces.nanoseconds[chosen] / 1e6
    for line, reasons in enumerate(rows):
        states = reasons[chosen]
        for number, share in enumerate(SHARES):
            its = states == number
            if its.any():
                spans = list(zip(starts[its].tolist(), widths[its].tolist(), strict=True))
                panel.broken_barh(spans, (line - 0.4, 0.8), color=COLOURS[share], linewidth=0)
    names = [f"worker {line}" for line in range(len(rows))] if has_workers else ["caller"]
    panel.set_yticks(range(len(rows)), names, color=TEXT)
    panel.set_ylim(len(rows) - 0.4, -0.6)
    panel.set_xlim(0, (end - begin) / 1e6)
    panel.set_xlabel("milliseconds", color=FAINT, fontsize=9)
    panel.tick_params(length=0, colors=FAINT, labelsize=9)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)


def _middle(pieces: Pieces) -> tuple[int, int]:
    """A few rounds from the middle of the recording, when everything is warm."""
    recorded = pieces.moments[pieces.nanoseconds > 0]
    starts = pieces.caller_entries
    if len(starts) <= ROUNDS:
        return int(recorded[0]), int(recorded[-1])
    first = min(len(starts) // 2, len(starts) - ROUNDS - 1)
    return int(starts[first]), int(starts[first + ROUNDS])
