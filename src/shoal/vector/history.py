"""The history: all rounds in order, the ordinary ones packed.

There may be tens of thousands of rounds, and nearly all of them are the ordinary step of all environments, or of one of two
halves. As objects of their own they would cost more than they hold, not least because the garbage collector looks at whatever
could refer to something. So they are packed into *stretches*: numbers, and a piece of memory. Whoever reads sees rounds only::

    parts:   stretch  round  stretch      under way:  round   round        packed when they are finished, the one that
                     (reset)                         (half)  (half)        was asked first before the other

Writing happens between two steps, when all workers wait and nothing of this is in the processor's cache. So it touches as
little as possible. And memory is used again: a page that nobody has touched before costs more than what is written into it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from shoal.vector.halves import ALL, NUM_HALVES, Half
from shoal.vector.layout import Array
from shoal.vector.messages import Op
from shoal.vector.rounds import EVERYBODY, Round

PIECE = 2**20  # bytes of memory for a stretch, if a single round has less
MOST_SPARE = 2**26  # bytes of memory that is kept to be used again


class Piece:
    """Memory for stretches, one after the other."""

    __slots__ = ("end", "memory", "num_stretches")

    def __init__(self, nbytes: int) -> None:
        self.memory: memoryview = np.empty(nbytes, np.uint8).data
        self.end = self.num_stretches = 0


class Stretch:
    """Ordinary steps, one after the other: what they were given, and what came of it, side by side in memory."""

    __slots__ = ("begin", "entries", "halves", "piece", "sizes")

    def __init__(
        self, piece: Piece, actions_nbytes: int, results_nbytes: int, halves: Mapping[int, Half | None]
    ) -> None:
        piece.num_stretches += 1
        self.piece, self.begin = piece, piece.end
        self.sizes, self.halves = (actions_nbytes, actions_nbytes + results_nbytes), halves
        self.entries: list[tuple[int, float, int]] = []
        """The number of each, for how long workers had been at work until then, and which half it was."""

    def __len__(self) -> int:
        return len(self.entries)

    def append(self, one: Round, half: int, results: Sequence[Array]) -> None:
        """Write down a round, and what has come of it."""
        piece, actions = self.piece, one.actions
        assert actions is not None
        memory, begin = piece.memory, piece.end
        end = begin + len(actions)
        memory[begin:end] = actions
        for block in results:
            begin = end
            end += len(block)
            memory[begin:end] = block  # type: ignore[call-overload]
        piece.end = end
        self.entries.append((one.sequence, one.before, half))

    def __iter__(self) -> Iterator[Round]:
        return map(self._round, range(len(self.entries)))

    def __reversed__(self) -> Iterator[Round]:
        return map(self._round, reversed(range(len(self.entries))))

    def after(self, sequence: int) -> Iterator[Round]:
        """Those that are later than that one."""
        return map(self._round, range(bisect_left(self.entries, (sequence + 1,)), len(self.entries)))

    def count_after(self, sequence: int) -> int:
        """How many are later than that one."""
        return len(self.entries) - bisect_left(self.entries, (sequence + 1,))

    def _round(self, place: int) -> Round:
        """One of them. What it was given, and what came of it, is shown where it lies: until something is dropped."""
        between, size = self.sizes
        memory, begin, (sequence, before, half) = self.piece.memory, self.begin + place * size, self.entries[place]
        return Round(
            sequence, Op.STEP if half == ALL else Op.STEP_EACH, None, before, 0,
            memory[begin : begin + between], answered=EVERYBODY,
            results=memory[begin + between : begin + size], half=self.halves[half],
        )  # fmt: skip

    def drop_before(self, sequence: int) -> int:
        """Forget earlier rounds; returns how many."""
        count = bisect_left(self.entries, (sequence,))
        del self.entries[:count]
        self.begin += count * self.sizes[1]
        return count


class History:
    """All rounds that matter, in order."""

    def __init__(self) -> None:
        self._parts: deque[Round | Stretch] = deque()
        self._last: Stretch | None = None
        """The one that grows, if nothing has come after it."""
        self._piece: Piece | None = None
        """Where the next stretch begins."""
        self._spare: list[Piece] = []
        """Those of which all stretches have been dropped."""
        self.under_way: Round | None = None
        """An ordinary step that has not been answered by all. It is always the last round."""
        self._halves_under_way: list[Round] = []
        """Steps of halves that have not been packed, and may still be. They come after all parts."""
        self._halves: dict[int, Half | None] = {ALL: None}
        """Those of which steps have been packed."""
        self.nbytes = 0
        """About how much memory the actions and results take."""

    def attach(self, actions: Array, results: Sequence[Array]) -> None:
        """Say what there is to keep of an ordinary step."""
        self._sizes = actions.nbytes, sum(array.nbytes for array in results)
        self.step_nbytes = sum(self._sizes)
        self._last_place = max(PIECE, self.step_nbytes) - self.step_nbytes
        """The last one in a piece at which there is room for a step."""
        self._last = self._piece = None  # what has been written has another size
        self._spare = []

    # -- writing -----------------------------------------------------------------------------------------------------

    def finish_step(self, results: Sequence[Array]) -> None:
        """Write down what has come of the one that is under way: blocks of bytes, which are copied."""
        one = self.under_way
        assert one is not None
        self.under_way = None
        if one.failed or one.done:
            one.answered, one.results, one.nbytes = EVERYBODY, joined(results), self.step_nbytes
            self.append(one)
            return
        if self._halves_under_way:
            self._keep_halves()
        self._pack(one, results)

    def begin_half(self, one: Round) -> None:
        """A step of a half has been asked for."""
        if len(self._halves_under_way) == NUM_HALVES:  # one of them has been finished otherwise
            self._keep_halves()
        self._halves_under_way.append(one)

    def finish_half(self, one: Round, results: Sequence[Array]) -> None:
        """Write down what has come of it."""
        under_way = self._halves_under_way
        if (
            not under_way or under_way[0] is not one or one.failed
        ):  # what was asked for before has not been finished like this
            one.answered, one.results = EVERYBODY, joined(results)
            self._keep_halves()
            return
        del under_way[0]
        self._pack(one, results)

    def _keep_halves(self) -> None:
        """Let those that are under way, or have been finished otherwise, stay what they are."""
        for one in self._halves_under_way:
            self._parts.append(one)
            self.nbytes += one.nbytes
        self._halves_under_way.clear()

    def _pack(self, one: Round, results: Sequence[Array]) -> None:
        stretch, half = self._last, one.half
        if stretch is None or self._parts[-1] is not stretch or stretch.piece.end > self._last_place:
            stretch = self._new_stretch()
        number = ALL
        if half is not None:
            number = half.number
            self._halves[number] = half
        stretch.append(one, number, results)
        self.nbytes += self.step_nbytes

    def _new_stretch(self) -> Stretch:
        if self._piece is None or self._piece.end > self._last_place:
            self._piece = self._spare.pop() if self._spare else Piece(max(PIECE, self.step_nbytes))
        stretch = self._last = Stretch(self._piece, *self._sizes, self._halves)
        self._parts.append(stretch)
        return stretch

    def append(self, one: Round) -> None:
        """Write down another round."""
        if self._halves_under_way:
            self._keep_halves()
        self._parts.append(one)
        self.nbytes += one.nbytes

    # -- reading -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(len(part) if isinstance(part, Stretch) else 1 for part in chain(self._parts, self._rest()))

    def __iter__(self) -> Iterator[Round]:
        return self.after(-1)

    def after(self, sequence: int) -> Iterator[Round]:
        """All rounds later than that one."""
        for part in chain(self._parts, self._rest()):
            if isinstance(part, Round):
                if part.sequence > sequence:
                    yield part
            else:
                yield from part.after(sequence)

    def _rest(self) -> list[Round]:
        return self._halves_under_way if self.under_way is None else [*self._halves_under_way, self.under_way]

    def __reversed__(self) -> Iterator[Round]:
        for part in chain(reversed(self._rest()), reversed(self._parts)):
            if isinstance(part, Round):
                yield part
            else:
                yield from reversed(part)

    def count_after(self, sequence: int) -> int:
        """How many rounds are later than that one."""
        count = 0
        for part in chain(reversed(self._rest()), reversed(self._parts)):
            if isinstance(part, Round):
                if part.sequence <= sequence:
                    break
                count += 1
            else:
                count += (its := part.count_after(sequence))
                if its < len(part):
                    break
        return count

    # -- with other workers ----------------------------------------------------------------------------------------------

    def adopt(self, other: History, readdressed: Callable[[Round], Round], halves: Sequence[Half]) -> None:
        """Go on where another history was, of which nothing is under way; with its memory.

        ``readdressed`` addresses a round to the workers of now, as ``halves`` are.
        """
        assert self._sizes == other._sizes
        assert other.under_way is None
        other._keep_halves()
        known = {number: None if half is None else halves[number] for number, half in other._halves.items()}
        other._halves.update(known)  # which those stretches refer to
        self._halves, self.nbytes = other._halves, other.nbytes
        self._parts = deque(part if isinstance(part, Stretch) else readdressed(part) for part in other._parts)
        for part in self._parts:
            if isinstance(part, Round) and part.half is not None:
                part.half = halves[part.half.number]

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
                self._retire(part)
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

    def _retire(self, stretch: Stretch) -> None:
        """Nothing is left of it but memory, which can be used again."""
        if stretch is self._last:
            self._last = None
        piece = stretch.piece
        piece.num_stretches -= 1
        if not piece.num_stretches:
            piece.end = 0
            if piece is not self._piece and len(self._spare) * len(piece.memory) < MOST_SPARE:
                self._spare.append(piece)


def joined(blocks: Sequence[Array]) -> bytes:
    """These bytes, one block after the other."""
    return blocks[0].tobytes() if len(blocks) == 1 else b"".join(block.tobytes() for block in blocks)
