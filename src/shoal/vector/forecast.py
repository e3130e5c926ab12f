"""How long a step of all environments would take on each backend: a small model of what was measured.

    serial     the sum of all steps
    shm        the longest share of a worker, and signalling, and copying, and sending infos
    threads    all computing, because only one thread computes at a time, and the longest share of waiting

The constants are those of an ordinary machine of today. They need not be exact: near the point where two backends are equally
quick it matters little which is chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SIGNAL_SECONDS = 45e-6
"""To ask worker processes for a step and to hear that they are done."""
WORKER_SECONDS = 8e-6
"""The same, for each worker."""
JOURNAL_SECONDS = 10e-6
"""To write down a step, so that it can be repeated."""
COPY_SECONDS = 2e-10
"""To copy a byte of results."""
INFO_SECONDS = 12e-6
"""To send an environment's info and take it in."""
THREAD_SECONDS = 60e-6
"""To hand a step to a thread and take it back."""
MAX_THREADS = 64
WAITING = 0.5
"""Steps that wait for longer than this share of their time are worth a thread each."""


@dataclass(frozen=True)
class Measured:
    """What a step of all environments was like in the caller's process; means over some steps."""

    num_envs: int
    seconds: float
    computing_seconds: float
    """In which a processor was busy; more than ``seconds`` if several were."""
    waiting_seconds: float
    """In which nothing was computed, and not for lack of a processor."""
    result_nbytes: int
    infos: float
    """How many environments had one."""


@dataclass(frozen=True)
class Forecast:
    """What a backend would need for a step of all environments."""

    backend: str
    num_workers: int
    seconds: float
    overhead: float
    """The part of it that is not environments' steps."""


def forecasts(measured: Measured, cpus: int) -> list[Forecast]:
    """Every way to run these environments, the quickest first; of equally quick ones, the simplest."""
    ways = [Forecast("serial", 1, measured.seconds, 0.0), _shm(measured, cpus)]
    if measured.waiting_seconds > WAITING * measured.seconds:
        ways.append(_threads(measured))
    return sorted(ways, key=lambda way: way.seconds)


def _shm(measured: Measured, cpus: int) -> Forecast:
    workers = min(cpus, measured.num_envs)
    longest_share = math.ceil(measured.num_envs / workers) / measured.num_envs * measured.seconds
    overhead = (
        SIGNAL_SECONDS
        + workers * WORKER_SECONDS
        + JOURNAL_SECONDS
        + measured.result_nbytes * COPY_SECONDS
        + measured.infos * INFO_SECONDS
    )
    return Forecast("shm", workers, longest_share + overhead, overhead)


def _threads(measured: Measured) -> Forecast:
    workers = min(measured.num_envs, MAX_THREADS)
    longest_wait = math.ceil(measured.num_envs / workers) / measured.num_envs * measured.waiting_seconds
    overhead = workers * THREAD_SECONDS
    return Forecast("threads", workers, measured.computing_seconds + longest_wait + overhead, overhead)
