"""Retirement: which workers have become too large or too old, and are replaced before anything happens to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from shoal.vector.backends.base import Backend
from shoal.vector.engine import Care
from shoal.vector.journal import Journal
from shoal.vector.layout import Arena
from shoal.vector.wards import Ward

logger = logging.getLogger(__name__)

WEIGHING_SECONDS = 0.2  # between two looks at how much memory workers take
MUCH_TOO_LARGE = 1.25  # times as large as allowed


class Retirement:
    """Watches how much workers take, and how many episodes they have run."""

    def __init__(self, care: Care, wards: Sequence[Ward], journal: Journal, backend: Backend) -> None:
        self._max_memory, self._max_episodes = care.max_worker_memory, care.max_worker_episodes
        self._wards, self._journal = wards, journal
        self._backend = backend
        self._weighed_at = float("-inf")
        self.arena: Arena

    def count_episodes(self, worker: int, rows: range) -> None:
        """These environments of a worker have answered: some of their episodes may have ended."""
        if self._max_episodes is not None:
            part = slice(rows.start, rows.stop)
            ended = self.arena.terminated[part] | self.arena.truncated[part]
            self._wards[worker].episodes += int(np.count_nonzero(ended))

    def due(self, comes_to_rest: Callable[[int], bool]) -> Iterator[tuple[int, str]]:
        """Workers that have nothing to do, now or soon, and should be replaced, and why."""
        now = self._backend.clock()
        weighs = self._max_memory is not None and now - self._weighed_at > WEIGHING_SECONDS
        if weighs:
            self._weighed_at = now
        for worker, ward in enumerate(self._wards):
            if self._backend.is_here(worker):
                continue  # nobody can take its place
            is_old = self._max_episodes is not None and ward.episodes >= self._max_episodes
            is_large = weighs and ward.may_retire and self._excess(worker) > 1
            if not (is_old or is_large) or not comes_to_rest(worker):
                continue
            if is_old:
                yield worker, f"it has run {ward.episodes} episodes"
            elif self._is_better_replaced(worker, ward):
                yield worker, f"it takes {self._memory(worker) // 10**6} MB of memory"

    def weigh_when_new(self, worker: int) -> None:
        """A replacement has made its environments."""
        ward = self._wards[worker]
        if self._max_memory is not None and ward.may_retire and self._memory(worker) > self._max_memory:
            ward.may_retire = False
            logger.warning(
                "worker %d takes more than max_worker_memory even when it is new: it is not replaced for that any more",
                worker,
            )

    def _is_better_replaced(self, worker: int, ward: Ward) -> bool:
        """Whether the replacement of a worker that takes too much would not leak the same again, in its replay."""
        excess = self._excess(worker)
        if self._journal.floors[worker] > ward.history_began:
            ward.history_began = self._journal.floors[worker]
            return True
        if excess > MUCH_TOO_LARGE and not ward.is_known_to_grow:
            ward.is_known_to_grow = True
            logger.warning(
                "worker %d takes %.1f times max_worker_memory and is not replaced: all that its environments have done since "
                "they were made would have to be repeated, and would take as much again; "
                "shoal.testing.check_restorable says why.",
                worker,
                excess,
            )
        return False

    def _excess(self, worker: int) -> float:
        """How many times as large as allowed a worker is."""
        return 0.0 if self._max_memory is None else self._memory(worker) / self._max_memory

    def _memory(self, worker: int) -> int:
        return self._backend.memory(worker) or 0
