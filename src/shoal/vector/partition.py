"""Who runs which environments."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import NamedTuple


class Share(NamedTuple):
    """What one worker runs: neighbours, so that their rows in the arena are one piece."""

    rows: range
    is_local: bool
    """Whether it is the caller's own process."""


def partition(num_envs: int, num_workers: int, local: Collection[int] = ()) -> list[Share]:
    """Divide the environments evenly among so many workers, except those that stay with the caller.

    One that stays may stand between the environments of one worker: then that worker becomes two.
    """
    away = [row for row in range(num_envs) if row not in local]
    worker_of: dict[int, int] = {}
    bounds = [len(away) * worker // num_workers for worker in range(num_workers + 1)]
    for worker, (first, last) in enumerate(itertools.pairwise(bounds)):
        worker_of.update(dict.fromkeys(away[first:last], worker))
    shares = []
    for worker, its in itertools.groupby(range(num_envs), key=lambda row: worker_of.get(row, -1)):
        rows = list(its)
        shares.append(Share(range(rows[0], rows[-1] + 1), worker < 0))
    return shares
