"""What processes may have and what they take: open files, memory."""

from __future__ import annotations

import errno
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

from shoal.vector.errors import ConfigurationError

PER_WORKER = 4  # its socket, the other end while it starts, the process itself, and its last words
OOM_SCORE = 500  # in thousandths of all memory
FOR_ALL = 20  # a spare worker, the epoll, shared memory, and what starting a process takes for a moment
NICENESS = 19  # a hundredth of what others get who want the same processor


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


def occupy_standard_descriptors() -> None:
    """In a program that has closed them, as daemons do, nothing that workers inherit may get their numbers."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free, which is this one


def why_no_worker(num_workers: int) -> str:
    """Why so many worker processes could not be started now; empty if nothing speaks against it.

    The only way to know is to start a process, so the smallest there is is started.
    """
    smallest = ["/bin/true"] if Path("/bin/true").exists() else [sys.executable, "-I", "-S", "-c", ""]
    try:
        make_room_for(num_workers)
        subprocess.run(smallest, stdin=subprocess.DEVNULL, check=False)
    except ConfigurationError as error:
        return str(error)
    except OSError as error:
        return why_no_process(error)
    return ""


def resident_bytes(pid: int) -> int | None:
    """How much memory a process takes, where that can be told."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def check_descriptors(count: int) -> None:
    """Raise ``OSError`` unless so many more files can be opened now."""
    taken: list[int] = []
    try:
        while len(taken) < count:
            taken.append(os.dup(2))
    finally:
        for descriptor in taken:
            os.close(descriptor)


def is_out_of_descriptors(error: BaseException) -> bool:
    """Whether no more files can be opened, by this process or by any."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def why_no_descriptor(error: OSError, pid: int | None = None) -> str:
    """Why no more files can be opened, by this process or by the fork server with this pid, and what to do."""
    remedy = "raise the limit (ulimit -n, or resource.setrlimit in Python)"
    if error.errno == errno.ENFILE:
        limit, remedy = "that of the whole system (fs.file-max)", "raise the limit (sysctl fs.file-max)"
    elif pid is None:
        limit = f"this process may have {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} open files"
    else:
        limit, remedy = f"that of the fork server (pid {pid}), which starts workers", "raise its limit (prlimit)"
    return (
        f"no file descriptor is free: {error.strerror or error}.\n  Limit: {limit}.\n"
        f"  What to do: close files and sockets that are not needed, or {remedy}."
    )


def why_no_process(error: OSError) -> str:
    """Why the system does not start another process, with the limits that it may have run into, and what to do."""
    if is_out_of_descriptors(error):
        return why_no_descriptor(error)
    if error.filename == sys.executable:
        return (
            f"the Python interpreter cannot be executed: {error.strerror}: {error.filename!r} (sys.executable).\n"
            "  What to do: check that this file is there, that this user may execute it (ls -l), and that its file system is "
            'not mounted with noexec. start_method="fork" does without it.'
        )
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
    free = free_memory()
    return "" if free is None else f"{free // 2**20} MB of memory are free"


def free_memory(root: Path = Path("/")) -> int | None:
    """How many bytes can still be had, as far as the system says so: of the machine, and of this container."""
    try:
        lines = dict(line.split(":") for line in (root / "proc/meminfo").read_text().splitlines())
        machine = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    groups = (root / "sys/fs/cgroup/memory.max", root / "sys/fs/cgroup/memory/memory.limit_in_bytes")
    # What a container has in use is partly cache that would be given up, so only its limit counts.
    return min([machine, *(limit for path in groups if (limit := _number(path)) is not None)])


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # not there, or "max"
        return None


def peak_bytes(maxrss: int) -> int:
    """What the system says of a process that has ended, in bytes."""
    return maxrss if sys.platform == "darwin" else maxrss * 1024


def own_peak_bytes() -> int:
    """How much memory this program has held at most, where the system says so: not what ran in this process before it."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def wake_promptly() -> None:
    """Let threads of this process that are begun from now on wake when they want to, and not up to 50 µs later.

    Linux collects wake-ups to save power. With a crowd of environments that wait, every one of them would be late.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK, to a nanosecond


def let_others_go_first(pid: int) -> None:
    """Let a process have only what little of the processors others leave."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS))
    except (OSError, AttributeError):
        pass  # not on this system, or it has just ended


def hurry(leader: int) -> None:
    """Let a process that has let others go first, and what it has started, be like others again, where that is permitted."""
    try:
        os.setpriority(os.PRIO_PGRP, leader, os.getpriority(os.PRIO_PROCESS, 0))
    except (OSError, AttributeError):
        pass  # it takes special rights


def volunteer_for_oom() -> None:
    """Let the kernel, when memory runs out, rather end this process, a worker that can be replaced, than its caller."""
    path = Path("/proc/self/oom_score_adj")
    try:
        path.write_text(str(min(1000, int(path.read_text()) + OOM_SCORE)))
    except (OSError, ValueError):
        pass  # not on Linux, or not permitted


def _open_now() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError as error:  # no /proc, or as many as there may be
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0] if is_out_of_descriptors(error) else 32
