"""Whether this process may open as many files as its workers will need."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from shoal.vector.errors import ConfigurationError

PER_WORKER = 3  # its socket, the other end while it starts, and the process itself
FOR_ALL = 12  # the epoll, shared memory, and what starting a process takes for a moment


def make_room_for(num_workers: int) -> None:
    """Raise the limit of open files as far as needed; refuse, with the numbers, if that is not far enough."""
    needed = PER_WORKER * num_workers + FOR_ALL + _open_now()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise ConfigurationError(
            f"{num_workers} workers need about {needed} open files, and this process may have {hard}: "
            "use fewer workers (num_workers=), or raise the limit (ulimit -n). Nothing was started."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _open_now() -> int:
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.exists() else 32
