"""Memory that several processes see, without a name.

On Linux it is a memfd: nothing in ``/dev/shm``, nothing to unlink, nobody else can attach. Elsewhere, or with
``SHOAL_PORTABLE=1``, it is a temporary file that was unlinked at once. Either way it is a descriptor that a worker
inherits, and it is allocated in full before anybody writes, so that a full disk or memory is an error here and not a bus
error there.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import resource
import shutil
import tempfile

from shoal.vector.backends.fork_guard import own_memory
from shoal.vector.backends.limits import free_memory
from shoal.vector.errors import ConfigurationError


def is_portable() -> bool:
    """Whether to do without what only Linux has."""
    return os.environ.get("SHOAL_PORTABLE") == "1" or not hasattr(os, "memfd_create")


class SharedBuffer:
    """A descriptor now, and memory once its size is known."""

    def __init__(self, name: str) -> None:
        if is_portable():
            with tempfile.TemporaryFile(prefix=f"{name}-") as file:
                self.fd = os.dup(file.fileno())
        else:
            self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)

    def allocate(self, nbytes: int, reserved: int = 0) -> mmap.mmap:
        """Give it its size, once; behind that, address space may be reserved, of which memory is taken when it is needed."""
        room = _room()
        if room is not None and nbytes > room:  # or the kernel would end a process to make room
            raise ConfigurationError(_too_large(nbytes, room))
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.fd, 0, nbytes)
            else:
                os.ftruncate(self.fd, nbytes)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
                raise
            raise ConfigurationError(_too_large(nbytes, _room())) from None
        if reserved:
            os.ftruncate(self.fd, nbytes + reserved)
        if not is_portable():
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
        return mmap.mmap(self.fd, nbytes + reserved)

    def close(self) -> None:
        """Give up the descriptor. The memory goes when nothing refers to it any more."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _room() -> int | None:
    """How many bytes there are, as far as that is known."""
    return shutil.disk_usage(tempfile.gettempdir()).free if is_portable() else free_memory()


def _too_large(nbytes: int, room: int | None) -> str:
    there = "" if room is None else f" ({room:,} are free)"
    return (
        f"there is no room for the {nbytes:,} bytes of memory that workers share{there}. Use fewer environments, smaller "
        f"observations, or {'a larger disk for temporary files (TMPDIR)' if is_portable() else 'more memory'}."
    )


def map_shared(fd: int) -> mmap.mmap:
    """The worker's view of a buffer that the caller has allocated. What an environment forks does not share it."""
    return own_memory(_map(fd, os.fstat(fd).st_size), fd)


def _map(fd: int, size: int) -> mmap.mmap:
    try:
        return mmap.mmap(fd, size)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    # An environment has forbidden itself to open files, and a mapping holds one.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        return mmap.mmap(fd, size)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
