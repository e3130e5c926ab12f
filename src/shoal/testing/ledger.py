"""The ledger of a fault plan: which faults have happened, and how far environments have come.

Whoever suffers a fault may die of it, and somebody else goes on in its place. So both are written down in files, *before* a
fault happens, where every process can read them::

    FaultPlan ── reads ──▶ folder/visits     one line for each time an environment got to the place of a fault
                           folder/progress   how far each environment has come
    FaultyEnv, in any process ── writes ──▶ both

The folder belongs to the process that made the plan, and goes when the plan and its factories do.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import shutil
import struct
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from shoal.vector.errors import StateError

Verdict = Literal["happened", "passed", "refused"]
ENTRY = struct.Struct("=qq")
"""One environment's progress: the number of its episode plus two, so that zero is for one that was never made; its step."""


class Visit(NamedTuple):
    """An environment has got to where a fault is."""

    fault: int
    """Its number in the plan."""
    verdict: Verdict


class Whereabouts(NamedTuple):
    """How far an environment has come at most."""

    episode: int
    """-1 until the first reset."""
    step: int


class Ledger:
    """What all processes know about the faults of a plan. A copy that was pickled does not own the folder."""

    def __init__(self, envs: Sequence[int]) -> None:
        self._places = {env: place for place, env in enumerate(envs)}
        self.owner = os.getpid()
        self._folder = Path(tempfile.mkdtemp(prefix=f"shoal_faults_{self.owner}_"))
        weakref.finalize(self, _remove, self._folder, self.owner)
        (self._folder / "visits").touch()
        (self._folder / "progress").write_bytes(bytes(ENTRY.size * max(len(envs), 1)))
        self._progress: mmap.mmap | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_progress": None}

    def note_visit(self, fault: int, judge: Callable[[list[Visit]], Verdict]) -> Verdict:
        """Write down that an environment is where this fault is; ``judge`` decides, from earlier visits, what follows."""
        with self._opened("visits", "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            verdict = judge([visit for visit in _parsed(file.read()) if visit.fault == fault])
            file.write(f"{fault} {verdict}\n")
        return verdict

    def visits(self) -> list[Visit]:
        """All of them, in the order in which they happened."""
        with self._opened("visits", "r") as file:
            return _parsed(file.read())

    def note_progress(self, env: int, episode: int, step: int) -> None:
        """Write down how far an environment is, unless it, or one before it, has come further."""
        if self._progress is None:
            with self._opened("progress", "r+") as file:
                self._progress = mmap.mmap(file.fileno(), 0)
        offset = ENTRY.size * self._places[env]
        if ENTRY.unpack_from(self._progress, offset) < (episode + 2, step):
            ENTRY.pack_into(self._progress, offset, episode + 2, step)

    def progress_of(self, env: int) -> Whereabouts | None:
        """How far an environment has come, or ``None`` if it was never made."""
        with self._opened("progress", "rb") as file:
            number, step = ENTRY.unpack_from(file.read(), ENTRY.size * self._places[env])
        return Whereabouts(number - 2, step) if number else None

    def put_away(self) -> None:
        """Keep nothing open."""
        if self._progress is not None:
            self._progress.close()
            self._progress = None

    def _opened(self, name: str, mode: str) -> Any:
        try:
            return open(self._folder / name, mode)
        except FileNotFoundError:
            raise StateError(
                "the FaultPlan of this environment is gone, and its folder with it: keep the plan in a variable for as long "
                "as its environments are used"
            ) from None


def _parsed(text: str) -> list[Visit]:
    found = []
    for line in text.splitlines():
        fault, verdict = line.split()
        found.append(Visit(int(fault), verdict))  # type: ignore[arg-type]
    return found


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a fork has the same object, but not the folder
        shutil.rmtree(folder, ignore_errors=True)
