"""Fixtures of tests that make runs: displays are shown as on a usual terminal, wherever the tests run."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("CI", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the learning curve, which is another test's business."""
    monkeypatch.setattr("shoal.runs.training.loop.draw_learning_curve", lambda *_: None)
