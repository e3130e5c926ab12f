"""Rehearsals: a spare worker does what a replacement would do, while everybody else goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.vector.backends.base import Backend
from shoal.vector.messages import Attachment, Op, Outcome
from shoal.vector.shortening import Rehearsal, Shortener
from shoal.vector.wards import Phase, Ward

Ask = Callable[[int, Ward, Op, Any], None]

REHEARSAL_SECONDS = 600.0  # after which it is given up; it has little of the processors while others are at work


class Rehearser:
    """One rehearsal at a time."""

    def __init__(self, shortener: Shortener, backend: Backend, ask: Ask) -> None:
        self._shortener = shortener
        self._backend = backend
        self._ask = ask
        self._rehearsal: Rehearsal | None = None
        self._began = 0.0
        self.ward = Ward()
        self.attachment: Attachment
        self.verdict: str | None = None
        """The last one: a difference, nothing, or ``None`` if the spare worker died."""

    @property
    def is_busy(self) -> bool:
        """Whether there is a rehearsal now."""
        return self._rehearsal is not None

    def begin(self, rehearsal: Rehearsal) -> None:
        """Let a spare worker try what would be done if a worker died, if there is one."""
        backend = self._backend
        if not backend.start_spare():
            return
        self._rehearsal, self._began = rehearsal, backend.clock()
        self.ward.phase = Phase.MAKING
        self._ask(backend.num_workers, self.ward, Op.CONSTRUCT, rehearsal.recipe)

    def go_on(self, outcome: Outcome) -> None:
        """The spare worker has finished a phase: begin the next."""
        assert self._rehearsal is not None
        spare, ward = self._backend.num_workers, self.ward
        if ward.phase is Phase.MAKING and not outcome.failures:
            ward.phase = Phase.ATTACHING
            self._ask(spare, ward, Op.ATTACH, self.attachment)
        elif ward.phase is Phase.ATTACHING:
            ward.phase = Phase.REPLAYING
            self._ask(spare, ward, Op.RESTORE, self._rehearsal.replay)
        elif outcome.failures:
            self.conclude(f"they could not be made again: {outcome.failures[0].message}")
        else:
            self.conclude(outcome.values[0][1] if outcome.values else "")

    def give_up_if_stuck(self) -> None:
        """A rehearsal that takes too long has failed."""
        if self._rehearsal is not None and self._backend.clock() - self._began > REHEARSAL_SECONDS:
            self.conclude("it took too long")

    def conclude(self, difference: str | None) -> None:
        """The spare worker came to a difference, or to none (the empty text), or it died."""
        rehearsal, self._rehearsal = self._rehearsal, None
        self.verdict = difference
        if rehearsal is not None:
            self._shortener.conclude(rehearsal, difference)
        self._backend.end_spare()

    def drop(self) -> None:
        """Forget what is being tried."""
        self._rehearsal = None
        self._backend.end_spare()
