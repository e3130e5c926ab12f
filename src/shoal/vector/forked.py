"""Which process this is, and what becomes of processes that environments fork, and that come back.

A child that an environment forks should run what it was forked for and end. If it returns from the environment's code, or
raises, it is a second copy of whatever called the environment: of a worker, or of a thread that serves environments. Such a
copy must not go on, because results would be written twice; so it ends here.
"""

from __future__ import annotations

import os
from typing import Final


class _Here:
    pid = os.getpid()


HERE = _Here()
"""This process: looking here takes a fraction of the time of asking the system."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: setattr(HERE, "pid", os.getpid()))

EXIT_CODE: Final = 1
STANDARD_ERROR: Final = 2


def end_if_forked(home: int) -> None:
    """End this process unless it is the one with this process id. Nothing is flushed or closed: all that is the parent's."""
    pid = os.getpid()
    if pid == home:
        return
    try:
        os.write(
            STANDARD_ERROR,
            f"shoal: process {pid}, which an environment forked from process {home}, came back from the environment's code "
            "and was ended; after os.fork(), the child must end itself with os._exit(), also if it raises.\n".encode(),
        )
    finally:
        os._exit(EXIT_CODE)
