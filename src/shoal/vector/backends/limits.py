"""What processes may have and what they take: open files, memory."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from shoal.vector.errors import ConfigurationError

PER_WORKER = 4  # its socket, the other end while it starts, the process itself, and its last words
OOM_SCORE = 500  # in thousandths of all memory
FOR_ALL = 20  # a spare worker, the epoll, shared memory, and what starting a process takes for a moment


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


def resident_bytes(pid: int) -> int | None:
    """How much memory a process takes, where that can be told."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def why_no_process(error: OSError) -> str:
    """Why the system does not start another process, with the limits that it may have run into, and what to do."""
    limits = [text for text in (_of_user(), _of_group(), _of_system(), _memory()) if text]
    known = f"\n  Limits: {'; '.join(limits)}." if limits else ""
    return (
        f"the system refuses another process: {error.strerror or error}.{known}\n"
        "  What to do: use fewer workers (num_workers=), end other programs, or raise the limit (ulimit -u, or pids.max of "
        "the container)."
    )


def _of_user() -> str:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft == resource.RLIM_INFINITY:
        return ""
    user, count = os.getuid(), 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            count += len(os.listdir(folder / "task")) if folder.stat().st_uid == user else 0
        except OSError:
            continue  # gone
    return f"this user may have {soft} processes and threads, and has {count}"


def _of_group(root: Path = Path("/sys/fs/cgroup")) -> str:
    """Of the control group of this process, of version 2 or 1 of the interface."""
    for folder in (root, root / "pids"):
        most, now = _number(folder / "pids.max"), _number(folder / "pids.current")
        if most is not None:
            return f"this container may have {most}, and has {now}"
    return ""


def _of_system() -> str:
    most = _number(Path("/proc/sys/kernel/pid_max"))
    return "" if most is None else f"the system may have {most}"


def _memory() -> str:
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return f"{int(lines['MemAvailable'].split()[0]) // 1024} MB of memory are free"
    except (OSError, KeyError, ValueError):
        return ""


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # not there, or "max"
        return None


def peak_bytes(maxrss: int) -> int:
    """What the system says of a process that has ended, in bytes."""
    return maxrss if sys.platform == "darwin" else maxrss * 1024


def volunteer_for_oom() -> None:
    """Let the kernel, when memory runs out, rather end this process, a worker that can be replaced, than its caller."""
    path = Path("/proc/self/oom_score_adj")
    try:
        path.write_text(str(min(1000, int(path.read_text()) + OOM_SCORE)))
    except (OSError, ValueError):
        pass  # not on Linux, or not permitted


def _open_now() -> int:
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.exists() else 32
