"""Memory that several processes see, without a name.

On Linux it is a memfd: nothing in ``/dev/shm``, nothing to unlink, nobody else can attach. Elsewhere, or with
``SHOAL_PORTABLE=1``, it is a temporary file that was unlinked at once. Either way it is a descriptor that a worker
inherits, and it is allocated in full before anybody writes, so that a full disk or memory is an error here and not a bus
error there.

The caller's view of it is not an ``mmap.mmap``. That would keep a descriptor of its own, and could only be closed when no
array refers to it any more; an exception that a program keeps refers to whatever its traceback has seen. So this view has no
descriptor, and when it is closed, private memory is put in its place, which takes no room until somebody writes there.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import shutil
import tempfile
import weakref
from typing import Any

from shoal.vector.backends.fork_guard import IN_PLACE, map_at, own_memory
from shoal.vector.backends.limits import free_memory
from shoal.vector.errors import ConfigurationError

_ACCESS = mmap.PROT_READ | mmap.PROT_WRITE
_FAILED = ctypes.c_void_p(-1).value
_unmap = ctypes.CDLL(None).munmap
_unmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def is_portable() -> bool:
    """Whether to do without what only Linux has."""
    return os.environ.get("SHOAL_PORTABLE") == "1" or not hasattr(os, "memfd_create")


class SharedBuffer:
    """A descriptor now, and memory once its size is known."""

    _memory: ctypes.Array[Any] | None = None

    def __init__(self, name: str) -> None:
        if is_portable():
            with tempfile.TemporaryFile(prefix=f"{name}-") as file:
                self.fd = os.dup(file.fileno())
        else:
            self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)

    def allocate(self, nbytes: int, reserved: int = 0) -> ctypes.Array[Any]:
        """Give it its size, once, and return the memory.

        Behind that, address space may be reserved, of which memory is taken when it is needed.
        """
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
        address = map_at(None, nbytes + reserved, _ACCESS, mmap.MAP_SHARED, self.fd, 0)
        if address == _FAILED:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._memory = (ctypes.c_ubyte * (nbytes + reserved)).from_address(address)
        # Not at the end of the program: another thread may still be reading then.
        weakref.finalize(self._memory, _unmap, address, nbytes + reserved).atexit = False
        return self._memory

    def close(self, *, is_lent: bool = False) -> None:
        """Give up the descriptor and the memory. If it is lent, the memory stays until nothing refers to it any more."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        memory, self._memory = self._memory, None
        if memory is not None and not is_lent:
            map_at(ctypes.addressof(memory), len(memory), _ACCESS, IN_PLACE | mmap.MAP_ANONYMOUS, -1, 0)


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
