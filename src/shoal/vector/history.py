"""The history: all rounds in order, the ordinary ones packed.

There may be tens of thousands of rounds, and nearly all of them are the ordinary step of all environments. As objects of
their own they would cost more than they hold, not least because the garbage collector looks at whatever could refer to
something. So they are packed into *stretches*: a number, two times bytes. Whoever reads sees rounds only. Steps of halves are
not packed: two of them overlap, and only what is finished can be.

Writing happens between two steps, when all workers wait and nothing of this is in the processor's cache. So it touches as
little as possible.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain

from shoal.vector.layout import Array
from shoal.vector.messages import Op
from shoal.vector.rounds import EVERYBODY, Round

LONGEST = 256  # rounds in a stretch


class Stretch:
    """Ordinary steps, one after the other."""

    __slots__ = ("actions", "before", "results", "sequences")

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self.before: list[float] = []
        self.actions: list[bytes] = []
        self.results: list[bytes] = []

    def __len__(self) -> int:
        return len(self.sequences)

    def __iter__(self) -> Iterator[Round]:
        return map(self._round, range(len(self.sequences)))

    def __reversed__(self) -> Iterator[Round]:
        return map(self._round, reversed(range(len(self.sequences))))

    def _round(self, place: int) -> Round:
        return Round(
            self.sequences[place], Op.STEP, None, self.before[place], 0, self.actions[place],
            answered=EVERYBODY, results=self.results[place],
        )  # fmt: skip

    def drop_before(self, sequence: int) -> int:
        """Forget earlier rounds; returns how many."""
        count = bisect_left(self.sequences, sequence)
        for column in (self.sequences, self.before, self.actions, self.results):
            del column[:count]
        return count


class History:
    """All rounds that matter, in order."""

    def __init__(self) -> None:
        self._parts: deque[Round | Stretch] = deque()
        self._last = Stretch()
        """The one that grows, if nothing has come after it."""
        self.under_way: Round | None = None
        """An ordinary step that has not been answered by all. It is always the last round."""
        self.nbytes = 0
        """About how much memory the actions and results take."""

    def attach(self, actions: Array, results: Sequence[Array]) -> None:
        """Say what there is to keep of an ordinary step."""
        self.step_nbytes = actions.nbytes + sum(array.nbytes for array in results)

    # -- writing -----------------------------------------------------------------------------------------------------

    def finish_step(self, results: bytes) -> None:
        """Write down what has come of it."""
        one = self.under_way
        assert one is not None
        assert one.actions is not None
        self.under_way = None
        one.results = results
        if one.failed or one.done:
            one.nbytes = self.step_nbytes
            self.append(one)
            return
        stretch = self._last
        if len(stretch.sequences) >= LONGEST or not self._parts or self._parts[-1] is not stretch:
            stretch = self._last = Stretch()
            self._parts.append(stretch)
        stretch.sequences.append(one.sequence)
        stretch.before.append(one.before)
        stretch.actions.append(one.actions)
        stretch.results.append(results)
        self.nbytes += self.step_nbytes

    def append(self, one: Round) -> None:
        """Write down another round."""
        self._parts.append(one)
        self.nbytes += one.nbytes

    # -- reading -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(len(part) if isinstance(part, Stretch) else 1 for part in self._parts) + (self.under_way is not None)

    def __iter__(self) -> Iterator[Round]:
        return self.after(-1)

    def after(self, sequence: int) -> Iterator[Round]:
        """All rounds later than that one."""
        for part in chain(self._parts, self._rest()):
            if isinstance(part, Round):
                if part.sequence > sequence:
                    yield part
            elif part.sequences[-1] > sequence:
                yield from (one for one in part if one.sequence > sequence)

    def _rest(self) -> list[Round]:
        return [] if self.under_way is None else [self.under_way]

    def __reversed__(self) -> Iterator[Round]:
        for part in chain(self._rest(), reversed(self._parts)):
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
                self.nbytes -= part.drop_before(sequence) * self.step_nbytes
                if len(part):
                    break
                self._parts.popleft()
            elif part.sequence >= sequence or part.sequence in is_open:
                break
            else:
                self._parts.popleft()
                if is_kept(part):
                    kept.append(part)
                else:
                    self.nbytes -= part.nbytes
        self._parts.extendleft(reversed(kept))
