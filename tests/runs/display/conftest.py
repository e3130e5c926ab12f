"""What tests of the display stand on."""

from __future__ import annotations

from tests.runs.fixtures import usual_terminal

__all__ = ["usual_terminal"]
