"""Moves that are done in one go, for tests that look at what comes of them."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.vector.auto import moving, starting
from shoal.vector.supervisor import Supervisor


def move_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, whoever begins to move is there before the next step."""
    begin, left = starting.InBackground.go_on, Supervisor.replays_left

    def wait_for_start(self: starting.InBackground) -> bool:
        self._thread.join()
        return begin(self)

    def wait_for_replays(self: Supervisor, _: Any) -> int:
        while left(self, None):
            pass
        return 0

    monkeypatch.setattr(starting.InBackground, "go_on", wait_for_start)
    monkeypatch.setattr(Supervisor, "replays_left", wait_for_replays)
    monkeypatch.setattr(moving, "PORTION_SECONDS", 1e9)
    monkeypatch.setattr(starting, "PORTION_SECONDS", 1e9)
