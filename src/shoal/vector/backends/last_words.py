"""What a worker leaves behind: the stack in which it crashed or hung, and the last it printed to its error output.

Both are in an unnamed file that the caller holds too: first the stacks, as :mod:`faulthandler` writes them when the process
crashes or when it is asked to by a signal, which works even while C code holds the interpreter's lock; further on, the
tail of ``sys.stderr``. What native code prints is not in it: that goes past Python.
"""

from __future__ import annotations

import faulthandler
import io
import itertools
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import TextIO

TAIL_OFFSET = 2**20
TAIL_SIZE = 4096
STACK_SIZE = 2**14
PATIENCE_SECONDS = 0.3
MAX_FRAMES = 12
_OWN = f'File "{Path(__file__).parents[1]}{os.sep}'


def show_stack_signal() -> int:
    """The signal that makes a worker write its stack: one that nobody uses."""
    return int(getattr(signal, "SIGRTMAX", signal.SIGUSR2)) - (3 if hasattr(signal, "SIGRTMAX") else 0)


class _Tail(io.TextIOBase):
    """An error output that keeps the last it was given where the caller can find it."""

    def __init__(self, stream: TextIO | None, fd: int) -> None:
        self._stream, self._fd, self._kept = stream, fd, b""

    def write(self, text: str) -> int:
        self._kept = (self._kept + text.encode(errors="replace"))[-TAIL_SIZE:]
        try:
            os.pwrite(self._fd, self._kept.rjust(TAIL_SIZE, b"\0"), TAIL_OFFSET)
        except OSError:
            pass  # an environment has closed what it does not know
        return len(text) if self._stream is None else self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._stream, "encoding", "utf-8")

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return getattr(self._stream, "errors", None)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        if self._stream is not None:
            self._stream.flush()

    def fileno(self) -> int:
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()


def leave_in(fd: int) -> None:
    """Let this process, a worker, leave its last words in this file."""
    faulthandler.enable(fd)
    faulthandler.register(show_stack_signal(), fd)
    sys.stderr = _Tail(sys.stderr, fd)


def ask_for_stack(fd: int, pid: int) -> str:
    """Make a worker write its stack, and read it; empty if it does not within a moment."""
    before = len(_stacks(fd))
    try:
        os.kill(pid, show_stack_signal())
    except ProcessLookupError:
        return ""
    end = time.monotonic() + PATIENCE_SECONDS
    written, last = "", None
    while time.monotonic() < end and (not written or written != last):
        last = written
        time.sleep(0.01)
        written = _stacks(fd)[before:]
    return frames_of(written)


def read_last_words(fd: int) -> tuple[str, str]:
    """The stack in which a worker has crashed, if it has, and the last that it printed to its error output."""
    tail = os.pread(fd, TAIL_SIZE, TAIL_OFFSET).lstrip(b"\0").decode(errors="replace")
    _, crash, stack = _stacks(fd).rpartition("Fatal Python error: ")
    return frames_of(stack) if crash else "", tail.strip()


def frames_of(stack: str) -> str:
    """The last stack in what :mod:`faulthandler` has written: the environment's part of it, or all if there is none."""
    current = re.split(r"^Thread ", stack.rpartition("Current thread ")[2], flags=re.MULTILINE)[0]
    frames = [line.strip() for line in current.splitlines() if line.lstrip().startswith("File ")]
    # Below the environment's frames are ours, which called it, and below these is how the process was started.
    theirs = list(itertools.takewhile(lambda frame: not frame.startswith(_OWN), frames))
    return "\n".join((theirs or frames)[:MAX_FRAMES]) or stack.strip()


def _stacks(fd: int) -> str:
    """All that was written there: what was not is zero."""
    return os.pread(fd, min(os.fstat(fd).st_size, TAIL_OFFSET), 0).rstrip(b"\0").decode(errors="replace")
