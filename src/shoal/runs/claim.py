"""Who trains in a folder: one process at a time, or the checkpoints and metrics of two would be mixed up.

The kernel keeps the lock with the open file and gives it up when the process ends, however it ends, so that a run whose process
was killed can be resumed at once. The file stays where it is: removed, it could be locked by two, each under another inode.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.runs.durable import reason_of
from shoal.vector.backends.fork_guard import disown, own
from shoal.vector.errors import StateError

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

CLAIM = ".lock"
"""The name of the file. It says who trains, or trained before."""


@contextmanager
def claimed(folder: Path) -> Iterator[str | None]:
    """Be the only one who trains in this folder. Where locks are refused, goes on without, and says so as a sentence.

    Raises:
        StateError: somebody else trains in it.
    """
    if fcntl is None:
        yield _unknown(folder, "this system has no flock")
        return
    try:
        descriptor = os.open(folder / CLAIM, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:  # a disk that is full or can only be read must not end a training
        yield _unknown(folder, reason_of(error))
        return
    # A forked worker that outlives its trainer by a moment would hold the lock as long.
    own(descriptor)
    try:
        yield _lock(folder, descriptor)
    finally:
        disown(descriptor)
        os.close(descriptor)


def _lock(folder: Path, descriptor: int) -> str | None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StateError(
            f"{folder} is being trained by {_holder(descriptor)}: two trainings would overwrite each other's checkpoints and "
            "metrics. What to do: wait until that one has ended, or stop it (Ctrl-C or SIGTERM: it saves), and resume then."
        ) from None
    except OSError as error:  # some network file systems have no locks
        return _unknown(folder, reason_of(error))
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()}\n".encode(), 0)
    except OSError:
        pass  # only the message to others will not name this process
    return None


def _holder(descriptor: int) -> str:
    try:
        return os.pread(descriptor, 500, 0).decode(errors="replace").strip() or "another process"
    except OSError:
        return "another process"


def _unknown(folder: Path, reason: str) -> str:
    return (
        f"training goes on, but nobody is kept from resuming {folder} meanwhile, because it cannot be locked: {reason}"
    )
