"""Moving environments to another session, while the one they are in goes on.

::

    old session   step  step  step  step  step  step  step ─┐ handed over between two steps
                    │    └─────┴─── what was done ──┐       ▼
    new session   starts ........ does it again, is further and further ... step  step

The new session makes the same environments, and they do what those of the old one have done, in portions: what has been
written down since the last portion is the next one. Every result is compared. When the new session is nearly there, it is given
the rest, takes over what had been written down, and takes the old one's place.

While workers start, hundreds of steps may be taken. Most environments need not do all of these again, because with a reset
they begin anew. So resets are noted meanwhile, and environments begin with those after which there is enough to compare. If one
comes to another result, a reset is no beginning, and everything is done again.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter, thread_time

from shoal.vector.auto.starting import PORTION_SECONDS, Starting
from shoal.vector.errors import ReplayDiverged
from shoal.vector.messages import Redo, Replay
from shoal.vector.session import Session
from shoal.vector.shortening import REHEARSED_STEPS
from shoal.vector.starts import Start
from shoal.vector.supervisor import Supervisor

LONGEST_REST_SECONDS = 0.006
"""What may be left to do when environments are handed over ..."""
FEW_ROUNDS = 2
"""... or so many steps, however long they take."""
FIRST_ROUNDS, MOST_ROUNDS = 8, 512
"""Steps in a portion."""
LONGEST_SECONDS = 10.0
"""For which they may be behind. Workers that cannot keep up with a loop are not worth it now."""
FEW_ANSWERS = 3
"""Portions in a row after which they were no nearer: then the caller waits a little for them in every step ..."""
MOST_WAITING_SECONDS = 1.0
"""... up to so long in all."""
NOTING_SECONDS = 0.1
"""Between two times at which the last resets are noted, and more where that takes long:"""
NOTING_SHARE = 20.0
"""so many times as long."""
HAND_OVER_SECONDS = 5.0
"""After which the rest, which should take milliseconds, is not waited for any more."""


class CannotKeepUp(Exception):
    """The environments of the new session are further and further behind."""


class HalfDone(Exception):
    """Some environments have taken a step that was interrupted, and nobody knows which."""


class NoBeginning(Exception):
    """An environment that began with a reset came to another result than the one that had lived before that."""


@dataclass(frozen=True)
class Portion:
    """What the new session has been told to do."""

    num_rounds: int
    told_at: float
    seconds: float
    """Of work, to tell it."""


class Move:
    """Brings the environments of a new session to where those of the old one are."""

    def __init__(self, old: Session, starting: Starting, group_size: int, *, trusts_resets: bool) -> None:
        supervisor = old.supervisor
        assert supervisor is not None
        assert supervisor.journal is not None
        self._old, self._starting, self._group_size = old, starting, group_size
        self._upkeep, self._journal = supervisor.upkeep, supervisor.journal
        self._trusts_resets = trusts_resets
        """Whether environments may begin with resets of which nobody knows whether they are beginnings."""
        self._noted: list[tuple[int, dict[int, Start]]] = []
        """The last resets at two moments, and the last command then."""
        self._noted_at = perf_counter()
        self._starts: dict[int, Start] = {}
        """Where the new session's environments begin."""
        self._begins_at_resets = False
        self._until = -1
        """The last command that the new session has been told of."""
        self._portion: Portion | None = None
        """What it was told last, until it has done that."""
        self._num_told = 0
        self._num_rounds = FIRST_ROUNDS
        self._seconds_a_round = 0.0
        """How long it takes to do one again."""
        self._follower: Supervisor | None = None
        self._follows_since = 0.0
        self._behind = sys.maxsize
        """How many commands the new session was behind when it had last done what it was told."""
        self._num_no_nearer = 0
        """Portions in a row after which the new session was no nearer."""
        self._waited = 0.0
        """For how many seconds the caller has waited for it."""
        self._finalizer = weakref.finalize(self, starting.abandon)

    def go_on(self) -> Session | None:
        """Do a little of it. Returns the new session when it has taken the old one's place; raises if it cannot."""
        if self._journal.has_open and not self._old.flights:
            raise HalfDone
        if self._follower is None:
            if not self._starting.go_on():
                self._note_resets()
                return None
            self._begin()
        follower, began = self._follower, perf_counter()
        assert follower is not None
        if began - self._follows_since > LONGEST_SECONDS or self._waited > MOST_WAITING_SECONDS:
            raise CannotKeepUp
        try:
            while True:
                patience = PORTION_SECONDS if self._num_no_nearer >= FEW_ANSWERS else 0.0
                self._take_answers(follower, patience)
                if self._is_nearly_there:
                    return self._hand_over(follower)
                passed = perf_counter() - began
                is_all_told = self._num_told and not self._num_untold
                if self._portion is not None or passed >= PORTION_SECONDS or is_all_told:
                    self._waited += passed if patience else 0.0
                    return None
                self._tell_more(follower, self._num_rounds)
        except ReplayDiverged as error:
            if self._begins_at_resets:
                raise NoBeginning from error
            raise

    def abandon(self) -> None:
        """Everything stays where it is. :meth:`end` ends the new session."""
        self._upkeep.is_paused = False

    def end(self, seconds: float) -> None:
        """End the new session, within about so many seconds. May be called in another thread if workers run it."""
        self._finalizer.detach()
        self._starting.abandon(seconds)

    # -- where to begin ----------------------------------------------------------------------------------------------

    def _note_resets(self) -> None:
        now, journal = perf_counter(), self._journal
        if not self._trusts_resets or now - self._noted_at < NOTING_SECONDS:
            return
        # The one before the last always has enough after it.
        if not self._noted or journal.count_done_after(self._noted[-1][0]) >= REHEARSED_STEPS:
            self._noted = [*self._noted[-1:], (journal.last_sequence, self._upkeep.shortener.last_resets())]
            took = perf_counter() - now  # with thousands of environments, milliseconds
            self._noted_at = now + NOTING_SHARE * took

    def _begin(self) -> None:
        """The new session has started: decide where its environments begin."""
        assert self._starting.session is not None
        self._follower, self._follows_since = self._starting.session.supervisor, perf_counter()
        self._upkeep.is_paused = True  # nothing may be dropped before it is told
        self._starts = dict(self._journal.starts)
        everybody = range(self._old.num_envs)
        for sequence, resets in reversed(self._noted):
            # What has been called or set does not begin anew with a reset.
            is_enough = self._journal.count_done_after(sequence) >= REHEARSED_STEPS and not self._journal.touched
            if is_enough and all(row in resets or row in self._starts for row in everybody):
                self._starts.update(resets)
                self._until = min(start.sequence for start in self._starts.values()) - 1
                self._begins_at_resets = True
                return

    # -- telling -----------------------------------------------------------------------------------------------------

    @property
    def _num_untold(self) -> int:
        """How many commands have been answered of which the new session knows nothing."""
        return self._journal.count_done_after(self._until)

    def _take_answers(self, follower: Supervisor, timeout: float | None) -> None:
        """See what the new session has done."""
        portion = self._portion
        if portion is None or follower.replays_left(timeout):
            return
        self._portion = None
        seconds = perf_counter() - portion.told_at
        self._seconds_a_round = seconds / portion.num_rounds
        # The next portion should hold the caller up for about as long as it may.
        held_up = seconds if follower.in_process else portion.seconds
        fitting = PORTION_SECONDS * portion.num_rounds / max(held_up, 1e-9)
        least = 1 if follower.in_process else FIRST_ROUNDS
        self._num_rounds = max(least, min(int(fitting), 4 * portion.num_rounds, MOST_ROUNDS))
        behind = self._journal.count_done_after(self._until)
        self._num_no_nearer = 0 if behind < self._behind else self._num_no_nearer + 1
        self._behind = behind

    @property
    def _is_nearly_there(self) -> bool:
        if not self._num_told or (self._starts and self._num_told < REHEARSED_STEPS):
            return False  # perhaps it is not known yet whether they begin anew with a reset
        if self._portion is not None:
            return False
        left = self._num_untold
        return left <= FEW_ROUNDS or left * self._seconds_a_round <= LONGEST_REST_SECONDS

    def _tell_more(self, follower: Supervisor, most: int) -> None:
        """Let it do the next commands again."""
        # Time in which this thread had no processor does not count: it says nothing about how much there was to tell.
        began, worked = perf_counter(), thread_time()
        starts, last, is_first = self._starts, self._until, not self._num_told
        if starts and not is_first and all(start.sequence <= last for start in starts.values()):
            starts = {}  # all have begun
        # What makes an environment anew is told once, before everything else.
        told = starts if is_first else {row: start for row, start in starts.items() if not start.is_new}
        replays: dict[int, Replay] = {}
        for worker, rows in enumerate(follower.rows):
            redo: list[Redo] = []
            for before, its in enumerate(self._journal.rows):
                both = range(max(rows.start, its.start), min(rows.stop, its.stop))
                if both:
                    more, last = self._journal.continuation(before, both, starts, self._until, most)
                    redo.extend(more)
            its_starts = {row: start for row, start in told.items() if row in rows}
            if redo or (is_first and its_starts):
                replays[worker] = Replay([_begun(one, starts) for one in redo], its_starts)
        num_rounds = min(most, self._journal.count_done_after(self._until))
        self._until = last
        self._num_told += max(1, num_rounds)
        follower.begin_replays(replays)
        self._portion = Portion(max(1, num_rounds), began, thread_time() - worked)

    def _hand_over(self, follower: Supervisor) -> Session:
        """Do the rest, and let the new session take the old one's place."""
        old, new, began = self._old, self._starting.session, perf_counter()
        assert new is not None
        if old.plan.backend == "serial":
            old.flights.land()  # here nothing happens unless it is waited for, so nobody is in the middle of anything
        while self._portion is not None or self._num_untold:
            if self._portion is None:
                self._tell_more(follower, MOST_ROUNDS)
            self._take_answers(follower, HAND_OVER_SECONDS)
            if perf_counter() - began > HAND_OVER_SECONDS:
                raise CannotKeepUp
        new.follow_on(old, self._group_size)
        self._finalizer.detach()
        return new


def _begun(redo: Redo, starts: Mapping[int, Start]) -> Redo:
    """The same, without environments that are made anew for it: they have been."""
    if not redo.begins:
        return redo
    return redo._replace(begins=tuple(row for row in redo.begins if not starts[row].is_new))
