"""The history: all rounds in order, the ordinary ones packed.

There may be tens of thousands of rounds, and nearly all of them are the ordinary step of all environments. As objects of
their own they would cost more than they hold: memory that is asked for and given back, and work for the garbage collector,
which looks at whatever could refer to something. So they are packed into *stretches*, a few arrays each, that are used again
when they are no longer needed. Whoever reads sees rounds only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from shoal.vector.layout import Array
from shoal.vector.messages import Op
from shoal.vector.rounds import EVERYBODY, Round

STRETCH_NBYTES = 2**18
LONGEST = 256  # rounds in a stretch
MOST_UNUSED = 2**26  # bytes of stretches that are kept to be used again


class Stretch:
    """Ordinary steps, one after the other."""

    __slots__ = ("_actions", "_before", "_first", "_results", "_sequences", "length")

    def __init__(self, length: int, action_nbytes: int, results: Sequence[Array]) -> None:
        self.length = length
        self._actions = np.empty((length, action_nbytes), np.uint8)
        self._results = np.empty((length, sum(map(len, results))), results[0].dtype)
        self.clear()

    def clear(self) -> None:
        """Have no rounds."""
        self._first = 0
        self._sequences: list[int] = []
        self._before: list[float] = []

    def __len__(self) -> int:
        return len(self._sequences) - self._first

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another round."""
        return len(self._sequences) == self.length

    @property
    def last_sequence(self) -> int:
        """That of the last round."""
        return self._sequences[-1] if self._sequences else -1

    def room(self) -> Array:
        """Where the actions of the next round go."""
        actions: Array = self._actions[len(self._sequences)]
        return actions

    def append(self, one: Round, results: Sequence[Array]) -> None:
        """Take in a round whose actions are already here."""
        place = len(self._sequences)
        if len(results) == 1:
            self._results[place] = results[0]
        else:
            np.concatenate(results, out=self._results[place])
        self._sequences.append(one.sequence)
        self._before.append(one.before)

    def rounds(self) -> Iterator[Round]:
        """What is packed here."""
        return map(self._round, range(self._first, len(self._sequences)))

    def __reversed__(self) -> Iterator[Round]:
        return map(self._round, range(len(self._sequences) - 1, self._first - 1, -1))

    def _round(self, place: int) -> Round:
        return Round(
            self._sequences[place], Op.STEP, None, self._before[place], 0, self._actions[place],
            answered=EVERYBODY, results=self._results[place],
        )  # fmt: skip

    def drop_before(self, sequence: int) -> int:
        """Forget earlier rounds; returns how many."""
        first = self._first
        while self._first < len(self._sequences) and self._sequences[self._first] < sequence:
            self._first += 1
        return self._first - first


class History:
    """All rounds that matter, in order."""

    def __init__(self) -> None:
        self._parts: deque[Round | Stretch] = deque()
        self._unused: list[Stretch] = []
        self._under_way: Round | None = None
        """An ordinary step that has not been answered by all. It is always the last round."""
        self.nbytes = 0
        """About how much memory the actions and results take."""

    def attach(self, actions: Array, results: Sequence[Array]) -> None:
        """Say what there is to keep of an ordinary step."""
        self._step_nbytes = actions.nbytes + sum(array.nbytes for array in results)
        length = min(LONGEST, max(1, STRETCH_NBYTES // max(1, self._step_nbytes)))
        self._new_stretch: Callable[[], Stretch] = lambda: Stretch(length, actions.nbytes, results)
        self._most_unused = MOST_UNUSED // max(1, length * self._step_nbytes)

    # -- writing -----------------------------------------------------------------------------------------------------

    def begin_step(self, sequence: int, before: float, num_workers: int, actions: Array) -> Round:
        """Write down an ordinary step."""
        stretch = self._parts[-1] if self._parts else None
        if type(stretch) is not Stretch or stretch.is_full:
            stretch = self._unused.pop() if self._unused else self._new_stretch()
            self._parts.append(stretch)
        room = stretch.room()
        room[:] = actions
        self._under_way = Round(sequence, Op.STEP, None, before, num_workers, room)
        return self._under_way

    def finish_step(self, results: Sequence[Array]) -> None:
        """Write down what has come of it, copied."""
        one, stretch = self._under_way, self._parts[-1]
        assert one is not None
        assert type(stretch) is Stretch
        self._under_way = None
        if not one.failed and not one.done:
            stretch.append(one, results)
            self.nbytes += self._step_nbytes
            return
        assert one.actions is not None
        one.actions, one.results = one.actions.copy(), np.concatenate(results)
        one.nbytes = self._step_nbytes
        self.append(one)

    def append(self, one: Round) -> None:
        """Write down another round."""
        self._parts.append(one)
        self.nbytes += one.nbytes

    # -- reading -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(len(part) if type(part) is Stretch else 1 for part in self._parts) + (self._under_way is not None)

    def __iter__(self) -> Iterator[Round]:
        return self.after(-1)

    def after(self, sequence: int) -> Iterator[Round]:
        """All rounds later than that one."""
        for part in self._parts:
            if type(part) is Round:
                if part.sequence > sequence:
                    yield part
            elif part.last_sequence > sequence:  # type: ignore[union-attr]
                yield from (one for one in part.rounds() if one.sequence > sequence)  # type: ignore[union-attr]
        if self._under_way is not None and self._under_way.sequence > sequence:
            yield self._under_way

    def __reversed__(self) -> Iterator[Round]:
        if self._under_way is not None:
            yield self._under_way
        for part in reversed(self._parts):
            if isinstance(part, Round):
                yield part
            else:
                yield from reversed(part)

    # -- becoming shorter --------------------------------------------------------------------------------------------

    def drop_before(self, sequence: int, is_open: Collection[int], is_kept: Callable[[Round], bool]) -> None:
        """Forget earlier rounds up to one that is open, except those that are to be kept."""
        kept: list[Round] = []
        while self._parts:
            part = self._parts[0]
            if isinstance(part, Stretch):
                self.nbytes -= part.drop_before(sequence) * self._step_nbytes
                if len(part) or (part is self._parts[-1] and self._under_way is not None):
                    break
                self._parts.popleft()
                part.clear()
                if len(self._unused) < self._most_unused:
                    self._unused.append(part)
            elif part.sequence >= sequence or part.sequence in is_open:
                break
            else:
                self._parts.popleft()
                if is_kept(part):
                    kept.append(part)
                else:
                    self.nbytes -= part.nbytes
        self._parts.extendleft(reversed(kept))
