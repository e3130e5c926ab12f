"""Who belongs to a trial: every process that carries its folder in its environment variables, wherever it has gone."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

VARIABLE = "SHOAL_BENCHMARKS_TRIAL"
_ATTEMPTS = 10
_TRACKER_SECONDS = 2.0


def processes_of_trial(folder: Path) -> list[psutil.Process]:
    """Those that run; one that has ended and not been waited for does not count."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(VARIABLE) == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            # Somebody else's, or gone meanwhile.
            continue
    return found


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_trial(folder: Path) -> None:
    """End whatever is left of it; more than once, because what is about to be killed can still start something."""
    for _ in range(_ATTEMPTS):
        processes = processes_of_trial(folder)
        if not processes:
            return
        trackers = [process for process in processes if _is_tracker(process)]
        for process in processes:
            # A tracker ends by itself when the others are gone, and removes the semaphores that they have left.
            if process not in trackers or len(processes) == len(trackers):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        psutil.wait_procs(processes, timeout=_TRACKER_SECONDS)


def _is_tracker(process: psutil.Process) -> bool:
    try:
        return any("resource_tracker" in argument for argument in process.cmdline())
    except psutil.Error:
        return False
