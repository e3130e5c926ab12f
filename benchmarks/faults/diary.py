"""What a trial writes down as it goes along, so that one that hangs or is killed has still said how far it came.

trial ── Stage.STEPPING, Stage.ANSWERING, … ──▶ diary (lines of JSON in a file) ──▶ judge
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

DIARY = "diary.jsonl"


class Stage(StrEnum):
    """What a trial is about to do. Each is entered once, in this order; some are left out."""

    IMPORTING = "importing"
    STARTING = "starting"
    STEPPING = "stepping"
    """The rollout in which the fault happens."""
    WAITING_TO_BE_KILLED = "waiting to be killed"
    ANSWERING = "answering"
    """The fault has been reported as an error, and the caller does something about it."""
    CLOSING = "closing"
    EXITING = "exiting"


class Diary:
    """The trial's end of it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / DIARY

    def enter(self, stage: Stage) -> None:
        self._write({"stage": stage})

    def note(self, **found: Any) -> None:
        """Something that the present stage has found; or nothing, to say that it goes on."""
        self._write(found)

    def _write(self, entry: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


class Reading:
    """The judge's end: how far it has come, and what was found in each stage."""

    def __init__(self, folder: Path) -> None:
        lines: list[str] = []
        if (folder / DIARY).exists():
            # A last line without an end is still being written.
            lines = (folder / DIARY).read_text().split("\n")[:-1]
        self.stage = Stage.IMPORTING
        self.num_entries = len(lines)
        self.found: dict[Stage, dict[str, Any]] = {}
        for line in lines:
            entry = json.loads(line)
            if "stage" in entry:
                self.stage = Stage(entry["stage"])
            else:
                self.found.setdefault(self.stage, {}).update(entry)
