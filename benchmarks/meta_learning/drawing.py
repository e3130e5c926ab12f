"""Curves of several agents beside each other, a line for every episode of a task."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

BEST = {"GridNavi-v0": (11.1, "whoever knows the goal: 11.1")}
"""What can be had in an episode, where that is known."""
NAMES = {"memory": "with a memory", "markov": "without", "memory-markov": "the critics have a memory"}
SHADES = ("#9fd3cf", "#4fada6", "#0b7a75", "#064541")
TEXT, GRID, RED = "#22303a", "#e6eaed", "#d9534f"


def draw(curves: Mapping[str, Sequence[Mapping[str, Any]]], path: Path, env: str) -> Path:
    """Returns over steps."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for panel, (arch, lines) in zip(panels, curves.items(), strict=True):
        steps = [line["steps"] / 1000 for line in lines]
        num_episodes = len(lines[0]["returns"])
        for episode in range(num_episodes):
            shade = SHADES[len(SHADES) - num_episodes + episode]
            returns = [line["returns"][episode] for line in lines]
            panel.plot(steps, returns, color=shade, linewidth=2.0, label=f"episode {episode + 1}")
        if env in BEST:
            panel.axhline(BEST[env][0], color=RED, linewidth=1.0, linestyle="--", label=BEST[env][1])
        minutes = lines[-1]["processor_seconds"] / 60
        panel.set_title(f"{NAMES[arch]} ({minutes:.1f} minutes of a processor)", color=TEXT, fontsize=11)
        panel.set_xlabel("thousand steps", color=TEXT)
        panel.grid(color=GRID)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("return of the episode, on tasks of an evaluation", color=TEXT)
    panels[0].legend(frameon=False, loc="lower right")
    figure.suptitle(f"{env}: several episodes with the same hidden goal", color=TEXT)
    figure.savefig(path, dpi=110)
    return path


def read(path: Path) -> list[dict[str, Any]]:
    """A curve that was saved."""
    return [json.loads(line) for line in path.read_text().splitlines()]
