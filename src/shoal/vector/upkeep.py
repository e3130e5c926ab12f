"""Upkeep: what is seen to from time to time, between two commands, so that environments can go on for as long as they like.

History that is no longer needed is dropped, later points to begin from are rehearsed, a spare worker is kept ready, and
workers that have become too large or too old are replaced. Some of that needs a worker that has nothing to do. Where steps
overlap there may never be one, unless it is waited for.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shoal.vector.engine import Care
from shoal.vector.journal import Journal
from shoal.vector.layout import Arena
from shoal.vector.messages import Attachment, Recipe
from shoal.vector.rehearsing import Rehearser
from shoal.vector.retiring import Retirement
from shoal.vector.shortening import Shortener, Way
from shoal.vector.wards import Phase, Ward

if TYPE_CHECKING:
    from shoal.vector.supervisor import Supervisor

logger = logging.getLogger(__name__)

LARGEST = 2**30  # bytes of journal after which nothing more is written down
SPARE_SECONDS = 2.0  # how long a pool lives before it gets a spare worker
GRACE_SECONDS = 1.0  # for a worker that is to leave
REST_SECONDS = 0.1  # for how long a worker that is always busy is waited for, to look at what can be dropped
REST_SHARE = 0.02  # of the time that may take
REST_PAUSE = 1.0  # seconds between two times, where nothing is urgent: what overlapped does not for a moment


class Upkeep:
    """Of the workers of a supervisor that keeps a journal."""

    def __init__(
        self, supervisor: Supervisor, journal: Journal, recipes: Sequence[Recipe], care: Care, wards: Sequence[Ward]
    ) -> None:
        self._supervisor, self._journal, self._care, self._wards = supervisor, journal, care, wards
        self._clock = supervisor.backend.clock
        # None of these refers to this object: it ends, and with it the arena, when the supervisor lets go of it.
        self.shortener = Shortener(journal, list(recipes), supervisor.captured)
        self.rehearser = Rehearser(self.shortener, supervisor.backend, supervisor.ask)
        self.retirement = Retirement(care, wards, journal, supervisor.backend)
        self.is_limited = care.max_worker_memory is not None or care.max_worker_episodes is not None
        """Whether workers may become too large or too old."""
        self.has_forgotten = False
        """Whether the journal has become too long to be kept, so that nothing can be replayed any more."""
        self.is_paused = False
        """Whether nothing may be dropped, because others read all of it one after the other."""
        self._began = self._clock()
        self._no_waiting_until = [self._began] * len(wards)
        """When a worker may next be waited for, only because it is to have nothing to do for a moment."""

    def attach(self, attachment: Attachment, arena: Arena) -> None:
        """Say where actions and results are."""
        self.shortener.attach(attachment, arena)
        self.retirement.arena = arena
        self.rehearser.attachment = attachment

    def see_to_everything(self) -> None:
        """Drop what is no longer needed, and have a spare worker ready."""
        supervisor, journal = self._supervisor, self._journal
        if not self._care.is_replayable or self.has_forgotten:
            journal.keep_last()
        elif self._clock() - self._began > SPARE_SECONDS:
            supervisor.backend.start_spare()
        self.rehearser.give_up_if_stuck()
        if self.has_forgotten or self.is_paused or not supervisor.is_whole:
            return
        supervisor.count_time()
        if self.is_limited:
            self._retire_where_due()
        if self._care.is_replayable:
            self._shorten_where_due()
        if journal.nbytes + supervisor.nbytes_seen > LARGEST:
            self._forget()

    def why_not_restorable(self) -> str:
        """Why nothing can be brought back; empty if it can be."""
        if self.has_forgotten:
            return "the history of the environments had become too long to be kept"
        if not self._care.is_replayable:
            return "the environments were made with replayable=False"
        return ""

    def rehearse_now(self, worker: int, way: Way) -> str | None:
        """Try out a way to bring a worker's environments back: what differs, or nothing; ``None`` if that cannot be tried."""
        known = self.shortener.known(worker, way)
        if known is not None:
            return known
        self.rehearser.drop()
        rehearsal = self.shortener.propose(worker, way)
        if rehearsal is None:
            return None
        self.rehearser.begin(rehearsal)
        while self.rehearser.is_busy:
            self._supervisor.let_happen(1.0)
            self.rehearser.give_up_if_stuck()
        return self.rehearser.verdict

    def _shorten_where_due(self) -> None:
        if self._supervisor.in_process and not self.shortener.is_lenient:
            return  # there is no spare worker to rehearse anything
        for worker in range(len(self._wards)):
            if not self.rehearser.is_busy and self.shortener.is_due(worker) and self._comes_to_rest(worker, REST_PAUSE):
                rehearsal = self.shortener.look_at(worker)
                if rehearsal is not None:
                    self.rehearser.begin(rehearsal)

    def _comes_to_rest(self, worker: int, pause: float = 0.0) -> bool:
        """Whether a worker has nothing to do now, or soon."""
        ward, journal, began = self._wards[worker], self._journal, self._clock()
        if began >= self._no_waiting_until[worker] + pause and journal.is_pending(worker):
            while ward.phase is Phase.WELL and journal.is_pending(worker):
                left = began + REST_SECONDS - self._clock()
                if left <= 0:
                    break
                self._supervisor.let_happen(left)
            now = self._clock()
            self._no_waiting_until[worker] = now + (now - began) * len(self._wards) / REST_SHARE
        return ward.phase is Phase.WELL and not journal.is_pending(worker)

    def _forget(self) -> None:
        logger.warning(
            "the history of the environments has become too long to be kept (%s MB): they cannot be restored any more "
            "if a worker dies. Their resets could not be repeated alone, and their state could not be captured; "
            "shoal.testing.check_restorable says why.",
            self._journal.nbytes // 2**20,
        )
        self.has_forgotten = True
        self._journal.keep_last()

    def _retire_where_due(self) -> None:
        """Replace workers that have become too large or too old, before anything happens to them."""
        for worker, reason in self.retirement.due(self._comes_to_rest):
            logger.info("worker %d is replaced: %s", worker, reason)
            self._retire(worker, self._wards[worker])

    def _retire(self, worker: int, ward: Ward) -> None:
        """Let an idle worker close its environments and end; its replacement goes on where it was."""
        supervisor = self._supervisor
        supervisor.stats.planned_restarts += 1
        ward.is_leaving, ward.died_at, ward.episodes = True, self._clock(), 0
        end = self._clock() + GRACE_SECONDS
        supervisor.dismiss(worker)
        while ward.phase is Phase.WELL:
            left = end - self._clock()
            if left <= 0:
                supervisor.backend.kill(worker)
            supervisor.let_happen(max(left, 0.1))
