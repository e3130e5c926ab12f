"""Which environments may be stepped, and which have given an observation. It outlives the session they run in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from shoal.vector.layout import Array


class Readiness:
    """Of all environments."""

    def __init__(self, was_reset: Sequence[bool], *, ends_for_good: bool) -> None:
        """``ends_for_good``: whether an environment whose episode has ended waits for a reset."""
        self.ends_for_good = ends_for_good
        self.is_ready = np.array(was_reset, dtype=np.bool_)
        """Which environments may be stepped."""
        self.all_ready = bool(self.is_ready.all())
        self.is_seen = np.zeros(len(was_reset), dtype=np.bool_)
        """Which environments have given an observation."""

    def may_step(self, rows: list[int]) -> bool:
        """Whether all of these may be."""
        return self.all_ready or bool(self.is_ready[rows].all())

    def begin(self, rows: Iterable[int]) -> None:
        """These begin an episode."""
        self.is_ready[list(rows)] = True
        self.all_ready = bool(self.is_ready.all())

    def give_up(self, rows: Iterable[int]) -> None:
        """These have raised, or were interrupted, and must be reset before they are stepped."""
        self.is_ready[list(rows)] = False
        self.all_ready = bool(self.is_ready.all())

    def give_up_all(self) -> None:
        """Some environments have taken a step and some have not, so none may go on from here."""
        self.is_ready[:] = self.all_ready = False

    def note_ends(self, has_ended: Array, rows: list[int] | slice = slice(None)) -> None:
        """The episodes of some of these have ended in this step."""
        self.is_seen[rows] = True
        if self.ends_for_good:
            self.is_ready[rows] = ~has_ended
            self.all_ready = bool(self.is_ready.all())

    def go_on_from(self, is_ready: list[bool]) -> None:
        """All have been seen, and are as they were when this was saved."""
        self.is_ready[:] = is_ready
        self.all_ready = bool(self.is_ready.all())
        self.is_seen[:] = True
