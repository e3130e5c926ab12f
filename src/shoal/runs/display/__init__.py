"""The ways to show a training run."""

from __future__ import annotations

from shoal.runs.display.levels import LEVELS, Display, PanelDisplay, PlainDisplay, open_display

__all__ = ["LEVELS", "Display", "PanelDisplay", "PlainDisplay", "open_display"]
