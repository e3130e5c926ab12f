"""How many processors this process may really use.

A container often shows all cores of its machine but may use only some of them.
"""

from __future__ import annotations

import math
import os
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


def _cgroup_quota(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """The quota in processors, of version 2 or 1 of the interface; ``None`` without a limit."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
        return None if quota == "max" else float(quota) / float(period)
    except (OSError, ValueError):
        pass
    try:
        limit = float((root / "cpu" / "cpu.cfs_quota_us").read_text())
        length = float((root / "cpu" / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return limit / length if limit > 0 and length > 0 else None
