"""How commands travel: one module per way, all behind one small protocol."""

from __future__ import annotations

import os
from collections.abc import Collection

from shoal.vector.backends.base import START_METHODS, Backend, StartMethod, default_start_method
from shoal.vector.backends.serial import SerialBackend
from shoal.vector.backends.threads import ThreadsBackend
from shoal.vector.errors import BackendUnavailable
from shoal.vector.messages import Recipe

BACKENDS = ("serial", "threads", "pipes", "shm")
PROCESS_BACKENDS = ("pipes", "shm")

__all__ = [
    "BACKENDS",
    "PROCESS_BACKENDS",
    "START_METHODS",
    "Backend",
    "Recipe",
    "StartMethod",
    "default_start_method",
    "make_backend",
    "processes_unavailable",
    "why_no_worker",
]


def processes_unavailable() -> str:
    """Why this system cannot run worker processes; empty if it can."""
    return "" if os.name == "posix" else "worker processes need a POSIX system (Linux or macOS)"


def why_no_worker(num_workers: int) -> str:
    """Why so many worker processes could not be started now; empty if nothing speaks against it."""
    if reason := processes_unavailable():
        return reason
    # Imported here because it needs modules that only POSIX systems have.
    from shoal.vector.backends import limits

    return limits.why_no_worker(num_workers)


def make_backend(
    name: str,
    recipes: list[Recipe],
    start_method: StartMethod,
    local: Collection[int] = (),
    *,
    pin_workers: bool,
    construct_seconds: float | None = None,
) -> Backend:
    """The backend of that name. The workers in ``local`` are in the caller's own process in any case.

    ``construct_seconds`` is how long environments may take to be made, if that is limited.
    """
    if name == "serial":
        return SerialBackend(recipes)
    if name == "threads":
        return ThreadsBackend(recipes)
    if reason := processes_unavailable():
        raise BackendUnavailable(f'backend="{name}" cannot run here: {reason}. Use "serial" or "threads".')
    # Imported here because it needs modules that only POSIX systems have.
    from shoal.vector.backends.mixed import MixedBackend
    from shoal.vector.backends.processes import PipesBackend, SharedMemoryBackend

    kind = PipesBackend if name == "pipes" else SharedMemoryBackend
    processes = kind(recipes, start_method, pin_workers=pin_workers, construct_seconds=construct_seconds)
    return MixedBackend(processes, recipes, local) if local else processes
