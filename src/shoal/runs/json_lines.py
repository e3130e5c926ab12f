"""A file of JSON lines that is always readable, whenever its writer was killed or the disk was full.

It is opened anew for every line. That costs some microseconds, and in return there is nothing to close, to flush or to
lose, and a folder that was moved or a disk that was full is simply there again next time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shoal.runs.durable import write_all

BLOCK = 65536


def append_lines(path: Path, lines: bytes) -> None:
    """Add whole lines at the end, or nothing. A line that a killed writer has left unfinished is removed first."""
    with _opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as descriptor:
        end = _end_of_last_line(descriptor)
        if end != os.fstat(descriptor).st_size:
            os.ftruncate(descriptor, end)
        try:
            write_all(descriptor, lines)
        except BaseException:
            try:
                os.ftruncate(descriptor, end)  # takes no room, so it works on a full disk
            except OSError:
                pass  # the next line removes what is left of this one
            raise


def cut_before(path: Path, is_too_late: Callable[[dict[str, Any]], bool]) -> None:
    """Remove the first line of which this is true, and all that follow, in one operation: there is no half of it."""
    with _opened(path, os.O_RDWR) as descriptor:
        position = 0
        with os.fdopen(os.dup(descriptor), "rb") as file:
            for line in file:
                value = _parse(line)
                if value is not None and is_too_late(value):
                    os.ftruncate(descriptor, position)
                    os.fsync(descriptor)
                    return
                position += len(line)


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Every complete line with its number, counted from 1; ``None`` for one that is no JSON object.

    What follows the last newline is a line whose writer was killed, or is still writing: it is left out.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield number, _parse(line)


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _end_of_last_line(descriptor: int) -> int:
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - BLOCK)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
