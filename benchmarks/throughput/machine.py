"""Where a run took place, and with which versions: what a reader needs to judge or repeat it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True)
class Machine:
    """Nothing here names the machine or its owner."""

    processor: str
    usable_cores: int
    memory_gigabytes: float
    system: str
    python: str
    load_before: float
    """One-minute load average just before the run; above about 0.5 the numbers are suspect."""


def usable_cores() -> int:
    """The cores this process may run on, which a container or taskset can limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def busy_share(seconds: float) -> float | None:
    """Share of all cores' time in use while this process sleeps; None if the system won't say."""
    before = _core_seconds()
    time.sleep(seconds)
    after = _core_seconds()
    if before is None or after is None or after.total <= before.total:
        return None
    return 1 - (after.idle - before.idle) / (after.total - before.total)


def describe_machine() -> Machine:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        processor=_processor(),
        usable_cores=usable_cores(),
        memory_gigabytes=round(memory / 1e9, 1),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        load_before=round(os.getloadavg()[0], 2),
    )


def installed_versions(distributions: Iterable[str]) -> dict[str, str]:
    """Versions by name; a distribution that is not installed is left out."""
    versions = {}
    for name in sorted(set(distributions)):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


class _CoreSeconds(NamedTuple):
    idle: float
    total: float


def _core_seconds() -> _CoreSeconds | None:
    statistics = Path("/proc/stat")
    if not statistics.exists():
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user already.
    fields = [float(field) for field in statistics.read_text().splitlines()[0].split()[1:9]]
    return _CoreSeconds(idle=fields[3] + fields[4], total=sum(fields))


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
