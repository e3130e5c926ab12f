"""Processes that have been killed and are not gone yet.

Who is killed still needs a processor, to give its memory back. On a busy machine that may take seconds, most of all for one
that lets others go first. Nobody waits that long; but the system keeps what is left of it (a *zombie*) until somebody asks how
it has ended, so that is asked again later.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.vector.backends.launch import Process

_dying: set[Process] = set()


def see_off(process: Process, seconds: float) -> None:
    """Give up a process that was killed, and wait for so long at most until it is gone."""
    if not process.wait(time.monotonic() + seconds) and process.is_child:
        _dying.add(process)
    process.forget()


def ask_again() -> None:
    """Let those go that have ended in the meantime."""
    for process in tuple(_dying):  # other threads may be at it, too
        if process.check():
            _dying.discard(process)
