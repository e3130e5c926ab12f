"""How processes wait, decided by a test and not by how busy the machine is."""

from __future__ import annotations

import pytest

from shoal.vector.backends.wait_mode import WaitMode


def always_look(monkeypatch: pytest.MonkeyPatch, *, looks: bool = True) -> None:
    """Let everything that is made from now on look while it waits, from its first answer on; or never."""

    def note(mode: WaitMode, num_answered: int, now: float) -> bool:
        has_changed = mode.looks is not looks
        mode.looks = looks
        return has_changed

    monkeypatch.setattr(WaitMode, "note", note)
