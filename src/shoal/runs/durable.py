"""Writing files so that a crash, a kill or a full disk leaves the old or the new, and never a half.

A file is written under another name, forced to the disk, and only then given its own name: renaming is the one thing that
a file system does completely or not at all. The name itself is on the disk once the folder has been forced there too.
"""

from __future__ import annotations

import os
from pathlib import Path


def write_new(path: Path, data: bytes) -> None:
    """Write a file that must not be there yet, and force it to the disk. If that fails, there is none."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    except BaseException:
        try:
            os.unlink(path)
        except OSError:
            pass  # what happened before is what the caller must hear of
        raise
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it: one call may write less, and does so just before the disk is full."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(path: Path) -> None:
    """Force to the disk which names the folder holds."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reason_of(error: OSError) -> str:
    """What the operating system said, without its number."""
    return error.strerror or str(error)
