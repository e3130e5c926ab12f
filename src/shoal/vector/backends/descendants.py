"""What a process has started: its children, and theirs.

Ending a worker's process group ends most of it. A browser or a game server that has made itself a session of its own is not
in that group, and is found here, where the system can tell (Linux).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

COOKIE = "SHOAL_WORKER"
"""The variable that every worker has, and what it starts inherits: the worker's process id."""


def children_of(pid: int) -> list[int]:
    """The processes whose parent this process is."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found  # gone, or a system without /proc
    for task in tasks:
        try:
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
        except OSError:
            continue  # a thread that has ended
    return found


def descendants_of(pid: int) -> list[int]:
    """Its children, theirs, and so on."""
    found = children_of(pid)
    for child in found:
        found += children_of(child)  # the list grows while it is walked through
    return found


def end_all(pids: list[int]) -> None:
    """End these processes."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass  # gone, or somebody else's


def end_group(leader: int) -> None:
    """End all who are in the group that this process leads, or led."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except OSError:
        pass  # nobody is left in it, or the leader is so young that there is no such group yet


def was_started_by(pid: int, worker_pid: int) -> bool:
    """Whether a process comes from that worker, as its variables tell."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{COOKIE}={worker_pid}".encode() in variables.split(b"\0")


def adopt_orphans() -> None:
    """From now on, what this process's descendants leave behind becomes its own children, where the system can do that."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    except (ImportError, OSError, AttributeError):
        pass
