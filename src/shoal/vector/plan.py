"""Which backend, how many workers: the choice that ``backend="auto"`` and ``None`` leave to us."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from shoal.vector.arguments import check_choice, check_count
from shoal.vector.backends import (
    BACKENDS,
    PROCESS_BACKENDS,
    START_METHODS,
    StartMethod,
    default_start_method,
    processes_unavailable,
)
from shoal.vector.caller import warn_caller
from shoal.vector.cpus import usable_cpus
from shoal.vector.errors import ConfigurationError

if TYPE_CHECKING:
    from shoal.vector.engine import Engine


UNDECIDED = "the first steps are timed in this process, then it is decided"
"""The reason for a plan that may soon be another."""


@dataclass(frozen=True)
class Plan:
    """How environments will be run, and why."""

    backend: str
    num_workers: int
    start_method: StartMethod
    reason: str
    threads_per_worker: int = 1
    """How many environments of one worker are at work at the same time."""
    local_envs: tuple[int, ...] = ()
    """Environments that stay in the caller's process while the others run in workers."""
    step_costs: tuple[float, ...] = field(default=(), repr=False)
    """Seconds of a step of each environment, where shares take equally long; else they are equally large."""


def make_plan(num_envs: int, engine: Engine) -> Plan:
    """Check what was asked for and fill in what was not."""
    backend, num_workers, start_method = engine.backend, engine.num_workers, engine.start_method
    check_choice("backend", backend, ("auto", *BACKENDS))
    if start_method is not None:
        check_choice("start_method", start_method, START_METHODS)
    if num_workers is not None:
        check_count("num_workers", num_workers)
    if engine.threads_per_worker is not None:
        check_count("threads_per_worker", engine.threads_per_worker)
    if engine.replayable is False:
        if num_workers is not None and num_workers < num_envs:
            raise ConfigurationError(
                f"num_workers={num_workers}, but with replayable=False each of the {num_envs} environments needs a worker of "
                "its own, so that losing one costs no other; leave num_workers out"
            )
        num_workers = num_envs
    reason = f"backend {backend!r} was asked for"
    if backend == "auto":
        backend, reason = _choose(num_envs, num_workers)
    local = _local(engine.in_process, num_envs) if needs_processes(backend) else ()
    if len(local) == num_envs:
        backend, reason, local = "serial", "all environments were asked to stay in this process", ()
    workers = 1 if backend == "serial" else min(num_workers or usable_cpus(), num_envs - len(local))
    threads = engine.threads_per_worker or 1
    if threads > 1 and not needs_processes(backend):
        raise ConfigurationError(
            f'threads_per_worker={threads} is for worker processes, and backend="{backend}" has none: use backend="shm"'
            + (", or num_workers for the number of threads" if backend == "threads" else "")
        )
    method: StartMethod = default_start_method()
    for known in START_METHODS:
        if known == start_method:
            method = known
    if method == "fork" and needs_processes(backend):
        _warn_of_fork()
    return Plan(backend, workers, method, reason, threads, local, engine.step_costs if needs_processes(backend) else ())


def _choose(num_envs: int, num_workers: int | None) -> tuple[str, str]:
    cpus = usable_cpus()
    if unavailable := processes_unavailable():
        return "serial", unavailable
    if num_envs == 1 and num_workers is None:
        return "serial", "one environment gains nothing from a process of its own"
    if cpus == 1 and num_workers is None:
        return "serial", "there is one processor, which a plain loop uses best"
    return "shm", f"{num_envs} environments on {cpus} processors"


def could_run_at_once(num_envs: int) -> bool:
    """Whether several environments could run at the same time here."""
    return num_envs > 1 and usable_cpus() > 1 and not processes_unavailable()


def _warn_of_fork() -> None:
    """A fork copies the locks that other threads hold, and not the threads that would release them."""
    others = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    reasons = [f"has other threads ({', '.join(others[:3])}{', …' if len(others) > 3 else ''})"] if others else []
    reasons += ["has loaded torch, which computes in threads of its own"] if "torch" in sys.modules else []
    if reasons:
        warn_caller(
            f'start_method="fork" copies this process, which {" and ".join(reasons)}: workers may wait for ever for a lock '
            'that no thread of theirs will release. Leave start_method out ("forkserver" starts as quickly), or silence this.'
        )


def _local(env_ids: Sequence[int], num_envs: int) -> tuple[int, ...]:
    for env_id in env_ids:
        if isinstance(env_id, bool) or not isinstance(env_id, int | np.integer) or not 0 <= env_id < num_envs:
            raise ConfigurationError(
                f"in_process names environments from 0 to {num_envs - 1} that stay in this process, got {env_id!r}"
            )
    return tuple(sorted({int(env_id) for env_id in env_ids}))


def needs_processes(backend: str) -> bool:
    """Whether this backend runs environments in processes that can be ended."""
    return backend in PROCESS_BACKENDS
