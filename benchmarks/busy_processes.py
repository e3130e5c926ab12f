"""Processes that only compute, as other programs on the same machine do."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

# It ends by itself when the benchmark is gone, however that ended: then its parent is another process.
_LOOP = """
import os, sys
benchmark = int(sys.argv[1])
while os.getppid() == benchmark:
    sum(range(200_000))
"""


@contextlib.contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """So many of them, until the block ends."""
    command = [sys.executable, "-c", _LOOP, str(os.getpid())]
    # Interrupted from the keyboard, each of them would tell where it was.
    processes = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
