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
import tempfile

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

    def allocate(self, nbytes: int) -> mmap.mmap:
        """Give it its size, once."""
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.fd, 0, nbytes)
            else:
                os.ftruncate(self.fd, nbytes)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
                raise
            raise ConfigurationError(
                f"there is no room for {nbytes:,} bytes of shared memory: {error.strerror}. Use fewer environments, "
                "smaller observations, or more memory."
            ) from None
        if not is_portable():
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
        return mmap.mmap(self.fd, nbytes)

    def close(self) -> None:
        """Give up the descriptor. The memory goes when nothing refers to it any more."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def map_shared(fd: int) -> mmap.mmap:
    """The worker's view of a buffer that the caller has allocated."""
    return mmap.mmap(fd, os.fstat(fd).st_size)
