"""Who runs which environments."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple


class Share(NamedTuple):
    """What one worker runs: neighbours, so that their rows in the arena are one piece."""

    rows: range
    is_local: bool
    """Whether it is the caller's own process."""


def partition(num_envs: int, num_workers: int, local: Collection[int] = (), costs: Sequence[float] = ()) -> list[Share]:
    """Divide the environments among so many workers, except those that stay with the caller.

    Evenly, or, where it is known what a step of each costs, so that each worker is busy for about as long.
    One that stays may stand between the environments of one worker: then that worker becomes two.
    """
    away = [row for row in range(num_envs) if row not in local]
    worker_of: dict[int, int] = {}
    bounds = by_cost([costs[row] for row in away], num_workers) if costs else by_number(len(away), num_workers)
    for worker, (first, last) in enumerate(itertools.pairwise(bounds)):
        worker_of.update(dict.fromkeys(away[first:last], worker))
    shares = []
    for worker, its in itertools.groupby(range(num_envs), key=lambda row: worker_of.get(row, -1)):
        rows = list(its)
        shares.append(Share(range(rows[0], rows[-1] + 1), worker < 0))
    return shares


def by_number(num_envs: int, num_workers: int) -> list[int]:
    """Where shares begin and end that have equally many environments."""
    return [num_envs * worker // num_workers for worker in range(num_workers + 1)]


def by_cost(costs: Sequence[float], num_workers: int) -> list[int]:
    """Where shares begin and end that cost about the same. Everybody has at least one environment."""
    so_far = [0.0, *itertools.accumulate(costs)]
    bounds = [0]
    for worker in range(1, num_workers):
        goal = so_far[-1] * worker / num_workers
        possible = range(bounds[-1] + 1, len(costs) - (num_workers - worker) + 1)
        bounds.append(min(possible, key=lambda bound: abs(so_far[bound] - goal)))
    return [*bounds, len(costs)]


def longest_share(costs: Sequence[float], bounds: Sequence[int]) -> float:
    """The part of all costs that the busiest worker has."""
    return max(sum(costs[first:last]) for first, last in itertools.pairwise(bounds)) / sum(costs)
