"""How many processors this process may really use.

A container often shows all cores of its machine but may use only some of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator
from pathlib import Path


def usable_cpus() -> int:
    """The processors of this process's affinity, limited by the quota of its control group."""
    try:
        available = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        available = os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, available if quota is None else min(available, math.ceil(quota)))


def own_processors(num_workers: int) -> list[int]:
    """A processor for each worker, if there is exactly one for each; otherwise none.

    With as many workers as processors, the best place for each is known, and the scheduler takes a while to find it: being
    woken together, workers land on one processor while another is idle. With fewer workers the scheduler knows better.
    """
    try:
        available = sorted(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return []
    return available if len(available) == num_workers == usable_cpus() > 1 else []


def others_running() -> int:
    """How many processes and threads beside this one are computing, or could be, at this moment; 0 where that is not known."""
    try:
        running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 0
    return max(0, running - 1)


def queueing_seconds(process: int | str) -> float:
    """For how long a process's main thread has waited for a processor, or this thread (``"thread-self"``), since it began.

    Linux knows that; elsewhere it is 0.
    """
    try:
        with open(f"/proc/{process}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def move_to(processors: Collection[int]) -> None:
    """Let this thread run on these processors alone, where that is still permitted."""
    try:
        os.sched_setaffinity(0, processors)
    except OSError:
        pass  # they have been taken away from this process meanwhile


def _cgroup_quota(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """The smallest quota, in processors, of this process's control groups; ``None`` without a limit."""
    found = [quota for group in _own_groups(root, own) if (quota := _quota_of(group)) is not None]
    return min(found, default=None)


def _own_groups(root: Path, own: Path) -> Iterator[Path]:
    """The folders of the groups that this process is in, each with all above it, of both versions of the interface."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        lines = []
    # A container may see its own group as the root, whatever it is called outside.
    tops = {root: "", root / "cpu": ""}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            tops[root] = path
        elif "cpu" in controllers.split(","):
            tops[root / "cpu"] = path
    for top, path in tops.items():
        group = top / path.lstrip("/")
        yield from (group, *(above for above in group.parents if above == top or top in above.parents))


def _quota_of(group: Path) -> float | None:
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == "max" else float(quota) / float(period)
    except (OSError, ValueError):
        pass
    try:
        limit = float((group / "cpu.cfs_quota_us").read_text())
        length = float((group / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return limit / length if limit > 0 and length > 0 else None
