"""Where a run took place, and with which versions: what a reader needs to judge or repeat it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


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
    """How many cores this process may run on, which a container or taskset can limit."""
    return len(usable_core_numbers())


def usable_core_numbers() -> list[int | None]:
    """The numbers of these cores; None for each where the system lets nobody choose."""
    if hasattr(os, "sched_getaffinity"):
        return list(os.sched_getaffinity(0))
    return [None] * (os.cpu_count() or 1)


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


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
