"""Colours and fonts that both pictures have in common."""

from __future__ import annotations

from typing import Any

SHOAL = "#0b7a75"
PEER = "#b8c4cc"
LOST = "#c8501e"
TEXT = "#22303a"
FAINT = "#6b7a85"
GRID = "#e6ebee"


def prepare() -> Any:
    """The drawing library, ready to draw into files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.size": 10, "text.color": TEXT, "font.family": "sans-serif"})
    return pyplot
