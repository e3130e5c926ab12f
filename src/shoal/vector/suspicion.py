"""Which of a worker's environments ends it: found out by looking at which one is at work when the worker dies.

An environment that ends the process in its own step is easy to find. But a thread that it has started may do so a moment
later, when a neighbour is at work, or while environments are brought back. So the suspects are put to the test::

    the others take their step ── pause ──┬── a suspect takes its step ── pause ──┬── the next suspect ...
            died here: none of the suspects                 died here: it was this one

Who is suspected follows from the deaths without progress in between:

- the same environment in the same step twice: this one, or all, if several are at work at the same time;
- several deaths at different places: all, one after the other;
- a test of all found one: this one, once more, after all the others;
- a test of one found that it was another: all.

An environment that has its own time for a step, and takes longer three times, needs no test: nobody else was at work. Three,
because a machine may stop a process now and then.

It is proof if a test of one finds that one, or if a second test of all finds the same one. Where several end the process in
the same step, a test of one always finds another: the one that comes first.

A pause is as long as the worker has lived at most after its environments were brought back: it did there whatever ends it.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.vector.messages import Caution

SAME_STEP = 2
"""Deaths in the same step of the same environment after which it is suspected."""
OFTEN_LATE = 3
"""Times that an environment may not take longer than its own time for the same step."""
MANY = 5
"""Deaths after which all are."""
LEAST_PAUSE, LONGEST_PAUSE, ALL_PAUSES = 0.01, 1.0, 10.0
"""Seconds, of one and of all together."""


class Suspicion:
    """Of the environments of one worker."""

    caution: Caution | None = None
    """How environments are to be brought back, and to take the pending step."""
    may_part: bool = True
    """Whether environments come to the same results when they are brought back apart from each other."""

    def __init__(self) -> None:
        self.num_deaths = 0
        self._in_step: dict[tuple[int, int | None], int] = {}
        self._hung: dict[tuple[int, int], int] = {}
        """How often an environment has taken too long in a step."""
        self._found = set[int]()
        """Environments that a test of all has found, and that have not got further since."""
        self._longest_life = 0.0

    def __bool__(self) -> bool:
        return self.num_deaths > 0 or self.caution is not None

    def clear(self) -> None:
        """The worker has got further."""
        self.num_deaths, self.caution, self._longest_life = 0, None, 0.0
        self._in_step.clear()
        self._hung.clear()
        self._found.clear()

    def acquit(self, row: int) -> None:
        """An environment has got further."""
        self._found.discard(row)
        self._in_step = {place: count for place, count in self._in_step.items() if place[1] != row}
        suspects = frozenset() if self.caution is None else self.caution.suspects - {row}
        if self.caution is None or not suspects:
            self.num_deaths, self.caution = 0, None
        else:
            self.caution = self.caution._replace(suspects=suspects)

    def note_hang(self, row: int, step: int) -> bool:
        """An environment has taken longer than its own time for this step; returns whether that is often enough."""
        self._hung[step, row] = self._hung.get((step, row), 0) + 1
        return self._hung[step, row] >= OFTEN_LATE

    def note_death(self, rows: Iterable[int], row: int | None, step: int | None, life: float) -> bool:
        """The worker has died while this environment was at work; returns whether that is proof against it.

        ``step`` is the command in which it took a step, if it did. ``life``: how many seconds ago all were brought back,
        or zero if that was before they last got further.
        """
        self.num_deaths += 1
        if step is not None:
            self._in_step[step, row] = self._in_step.get((step, row), 0) + 1
        if self.caution is not None:
            if row is None or row not in self.caution.suspects:
                self._suspect(rows, is_one=False)
                return False
            if self.caution.is_of_one or row in self._found:
                return True
            self._found.add(row)
            self._suspect([row], is_one=True)
            return False
        self._longest_life = max(self._longest_life, life)
        if step is not None and self._in_step[step, row] >= SAME_STEP:
            # Where several were at work at the same time, nobody could say which.
            self._suspect(rows if row is None else [row], is_one=row is not None)
        elif self.num_deaths >= MANY:
            self._suspect(rows, is_one=False)
        return False

    def _suspect(self, rows: Iterable[int], *, is_one: bool) -> None:
        suspects = frozenset(rows)
        pause = min(LEAST_PAUSE + 1.5 * self._longest_life, LONGEST_PAUSE, ALL_PAUSES / len(suspects))
        self.caution = Caution(suspects, pause, is_one)
