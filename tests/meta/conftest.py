"""What tests of meta-RL and its command stand on."""

from __future__ import annotations

from tests.runs.fixtures import here, no_picture, usual_terminal

__all__ = ["here", "no_picture", "usual_terminal"]
