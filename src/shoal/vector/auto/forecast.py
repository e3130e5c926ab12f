"""How long a step of all environments would take on each backend: a small model of what was measured.

    serial     the sum of all steps, and copying, and putting infos together
    shm        the longest share of a worker, and signalling, and copying, and sending infos; of steps that wait, each worker
               has many at a time, so that only computing is shared out

The constants are those of an ordinary machine of today. Those of what Python does grow with the time that it takes on this one
at this moment; memory is as quick everywhere.
They need not be exact: near the point where two backends are equally quick it matters little which is chosen.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.vector.partition import by_cost, by_number, longest_share

SIGNAL_SECONDS = 14e-6
"""To ask worker processes for a step and to hear that they are done."""
WORKER_SECONDS = 4e-6
"""The same, for each worker ..."""
ENV_SECONDS = 0.05e-6
"""... and for each environment, on either backend: what is done about it beside its step."""
JOURNAL_SECONDS = 6e-6
"""To write down a step, so that it can be repeated."""
COPY_SECONDS = 4e-11
"""To copy a byte of results ..."""
SHARE_SECONDS = 1e-10
"""... and where one processor writes it, and another reads and keeps it."""
INFOS_SECONDS, INFO_SECONDS = 20e-6, 0.5e-6
"""To put infos together, if there are any, and for each environment that has one ..."""
SENT_INFOS_SECONDS, SENT_INFO_SECONDS = 35e-6, 1.5e-6
"""... and where workers have to tell them first."""
THREAD_SECONDS = 20e-6
"""To hand a step to a thread of a worker, and take it back."""
MAX_THREADS = 256
ORDINARY_SECONDS = 25e-6
"""What the loop in :func:`slowness` takes there."""
WORTH_DIVIDING, NEARLY_ALL, ENOUGH_TO_DIVIDE = 0.92, 0.8, 5
"""If the busiest worker's time becomes so much shorter in so many of at least so many steps, shares may be unequal."""
LAST_SECONDS = 150e-6
"""For which the last of several workers waits for a processor, for each other process that wants it."""
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
    overlaps: bool = False
    """Whether the environments have waited at the same time, so that all of ``waiting_seconds`` were of each."""
    single_steps: Sequence[tuple[float, ...]] = ()
    """How long each environment took, step by step, where that is known."""
    others: float = 0.0
    """How many other processes of this machine were computing meanwhile."""

    @property
    def waits(self) -> bool:
        """Whether they wait for most of the time, one after the other."""
        return not self.overlaps and self.waiting_seconds > WAITING * self.seconds


@dataclass(frozen=True)
class Forecast:
    """What a backend would need for a step of all environments."""

    backend: str
    num_workers: int
    seconds: float
    overhead: float
    """The part of it that is not environments' steps."""
    threads_per_worker: int = 1
    step_costs: tuple[float, ...] = ()
    """By which shares are divided, if they should not have equally many environments."""


def slowness() -> float:
    """How many times longer Python takes here and now than where the constants were found."""
    durations = []
    for _ in range(5):
        begin, value = time.perf_counter(), 1
        for _ in range(400):
            value = (value * 5 + 3) & 0xFFFF
        durations.append(time.perf_counter() - begin)
    return statistics.median(durations) / ORDINARY_SECONDS


def forecasts(measured: Measured, cpus: int, slowness: float = 1.0) -> list[Forecast]:
    """Every way to run these environments, the quickest first; of equally quick ones, the simplest."""
    return sorted([_serial(measured, cpus, slowness), _shm(measured, cpus, slowness)], key=lambda way: way.seconds)


def _serial(measured: Measured, cpus: int, slowness: float) -> Forecast:
    overhead = measured.result_nbytes * COPY_SECONDS + slowness * (
        measured.num_envs * ENV_SECONDS
        + (INFOS_SECONDS + measured.infos * INFO_SECONDS if measured.infos >= 1 else 0.0)
    )
    return Forecast("serial", 1, _crowding(1, measured.others, cpus) * (measured.seconds + overhead), overhead)


def _shm(measured: Measured, cpus: int, slowness: float) -> Forecast:
    workers = min(cpus, measured.num_envs)
    most = math.ceil(measured.num_envs / workers)
    share, threads = most / measured.num_envs, 1
    costs: tuple[float, ...] = ()
    if len(measured.single_steps) >= ENOUGH_TO_DIVIDE and workers > 1 and not measured.waits:
        share, costs = _longest_share(measured.single_steps, workers)
    steps = share * measured.seconds
    if measured.overlaps:
        steps = measured.waiting_seconds + share * (measured.seconds - measured.waiting_seconds)
    elif measured.waits and most > 1:
        threads = min(most, MAX_THREADS)
        longest_wait = math.ceil(most / threads) / measured.num_envs * measured.waiting_seconds
        steps = longest_wait + share * (measured.seconds - measured.waiting_seconds)
    overhead = measured.result_nbytes * SHARE_SECONDS + slowness * (
        SIGNAL_SECONDS
        + workers * WORKER_SECONDS
        + measured.num_envs * ENV_SECONDS
        + JOURNAL_SECONDS
        + (SENT_INFOS_SECONDS + measured.infos * SENT_INFO_SECONDS if measured.infos >= 1 else 0.0)
        + (most * THREAD_SECONDS if threads > 1 else 0.0)
    )
    crowding = _crowding(workers, measured.others, cpus)
    if crowding > 1 and workers > 1:
        overhead += LAST_SECONDS * round(measured.others)
    return Forecast("shm", workers, crowding * steps + overhead, overhead, threads, costs)


def _crowding(num_processes: int, others: float, cpus: int) -> float:
    """How many times as long computing takes beside so many others that a processor has to be shared."""
    # The others may use all processors of the machine, also where this process may not.
    share = (num_processes + round(others)) / max(cpus, os.cpu_count() or 1)
    return max(1.0, share)


def _longest_share(steps: Sequence[tuple[float, ...]], workers: int) -> tuple[float, tuple[float, ...]]:
    """The busiest worker's part of the work, and the costs by which to divide it if that makes a difference."""
    costs = tuple(map(statistics.median, zip(*steps, strict=True)))
    even, uneven = by_number(len(costs), workers), by_cost(costs, workers)
    # Steps vary by chance, too. So shares that suit the typical step must have suited nearly every step.
    won = [longest_share(step, uneven) < WORTH_DIVIDING * longest_share(step, even) for step in steps]
    if sum(won) < NEARLY_ALL * len(steps):
        return longest_share(costs, even), ()
    return longest_share(costs, uneven), costs
