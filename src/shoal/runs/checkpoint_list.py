"""Which checkpoints are there, in which order they were saved, and which of them is the best. Looking changes nothing.

A checkpoint's folder is named after its step. A step that is saved again, as after a resume, gets another version of the name
(``step_000012345-2``), so that the first is there until the second is.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import NamedTuple

from shoal.runs.checkpoint_files import STATE, Heading, read_heading
from shoal.runs.errors import CheckpointDamaged


class Saved(NamedTuple):
    """A checkpoint that is there, and what it says of itself."""

    path: Path
    heading: Heading


class Listing(NamedTuple):
    """All that were there at a moment."""

    saved: list[Saved]
    """Those whose headings can be read, in the order in which they were saved."""
    damaged: list[Path]
    """Those whose headings cannot, the latest step first. Nobody knows when they were saved."""

    def best(self) -> Saved | None:
        """The highest score; among equals, the one that was trained for longer."""
        scored = [one for one in self.saved if one.heading.score is not None]
        return max(scored, key=lambda one: (one.heading.score, one.heading.number), default=None)

    def of_step(self, step: int) -> Path | None:
        """The one that was saved last at this step; a damaged one only if there is no other."""
        damaged = [path for path in self.damaged if step_in(path.name) == step]
        whole = [one.path for one in self.saved if one.heading.step == step]
        return next(reversed([*damaged, *whole]), None)

    def next_number(self) -> int:
        """Of the checkpoint that is saved next."""
        return max((one.heading.number for one in self.saved), default=0) + 1


class CheckpointList:
    """Those in one folder. Each heading is read once: a state may be large, and is looked at with every save."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._headings: dict[_Identity, Heading] = {}

    def look(self) -> Listing:
        """Which are there now."""
        listing = Listing([], [])
        for path in self._folders():
            try:
                listing.saved.append(Saved(path, self._heading_of(path)))
            except CheckpointDamaged:
                listing.damaged.append(path)
        listing.saved.sort(key=lambda one: one.heading.number)
        listing.damaged.sort(key=lambda path: step_in(path.name) or 0, reverse=True)
        return listing

    def free_name(self, step: int) -> str:
        """What a new checkpoint of this step is called."""
        names = (_name(step, version) for version in itertools.count(1))
        return next(name for name in names if not (self._path / name).exists())

    def _folders(self) -> list[Path]:
        try:
            return [path for path in self._path.iterdir() if step_in(path.name) is not None]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _heading_of(self, path: Path) -> Heading:
        file = _Identity.of(path / STATE)
        if file is None:
            return read_heading(path)  # which says what is wrong
        if file not in self._headings:
            self._headings[file] = read_heading(path)
        return self._headings[file]


class _Identity(NamedTuple):
    """Differs if a file was replaced or written to."""

    path: Path
    inode: int
    changed: int
    size: int

    @classmethod
    def of(cls, path: Path) -> _Identity | None:
        try:
            status = path.stat()
        except OSError:
            return None
        return cls(path, status.st_ino, status.st_mtime_ns, status.st_size)


def _name(step: int, version: int) -> str:
    return f"step_{step:09d}" if version == 1 else f"step_{step:09d}-{version}"


def step_in(name: str) -> int | None:
    """``None`` if it is not the name of a checkpoint."""
    match = re.fullmatch(r"step_(\d{9,})(-\d+)?", name)
    return int(match[1]) if match else None
