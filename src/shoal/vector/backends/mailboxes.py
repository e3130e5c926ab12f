"""Mailboxes: memory in which every worker leaves letters for the caller: what has no place in the arena.

Texts, other values without a fixed size, and infos that are never alike come with every step of a text world. As messages
they would take several system calls on either side, and the caller would have to look for them at the sockets of all workers.
So each worker has a mailbox, behind the board and in the same memory::

    board │ list of letters │ letters ...                 │ order │ list │ letters ...
          └─── mailbox of worker 0, 16 MiB of address space ──────┘      worker 1

    worker                                                              caller
    writes a letter, then its line in the list, then LETTERS = 4 ──────▶ reads the letter when the board says that a step
                                                                         is done, or that LETTERS has grown
    may use its place again ◀────────────────────────────────────────── LETTERS_READ = 4

The count is what commits: a worker that dies while it writes has written nothing. A new letter lies at the beginning of the
mailbox if all others have been read, so that in lockstep it is always the same memory. Memory is taken from the system
when a letter needs it, and given back when the environments are closed. A letter for which there is no room is sent as a
message instead.

The end of a mailbox is for the other direction: for the one step of all that the worker is asked for, if there is more to say
than that on the board, such as texts as actions. It is read before the step is answered, so that no list is needed.
"""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from shoal.vector.backends.limits import free_memory
from shoal.vector.infos import Columns, EnvInfos
from shoal.vector.layout import Rows
from shoal.vector.loose import LooseColumn, LooseValues
from shoal.vector.messages import Outcome
from shoal.vector.pickling import dumps

ROOM: Final = 2**24
"""Bytes of a mailbox ..."""
ORDER_ROOM: Final = 2**22
"""... of which so many are for orders."""
LINE = 4  # words: the number of the command, whom the letter is about, where it begins and how long it is
LINES = 512
LIST_NBYTES = LINES * LINE * 8
FIRST_NBYTES = 2**16
"""As much memory is taken at first, and each time twice as much as there is."""
PAGE = 4096


def nbytes_for(num_places: int) -> int:
    """How much address space so many mailboxes take."""
    return num_places * ROOM


def mailbox(memory: memoryview, worker: int, num_places: int) -> memoryview:
    """The mailbox of a worker: they are the end of the board's memory."""
    begin = len(memory) - (num_places - worker) * ROOM
    return memory[begin : begin + ROOM]


class Letter(NamedTuple):
    """What a worker tells of a command, and of whom."""

    sequence: int
    about: int
    """An environment, or, as a negative number, all or one half of them."""
    data: memoryview


class Ground:
    """Address space in a file, and how much of it there is memory for."""

    def __init__(self, descriptor: int, offset: int, room: int) -> None:
        self._descriptor, self._offset, self._room = descriptor, offset, room
        self._file = os.fstat(descriptor)
        self._taken = 0

    def holds(self, nbytes: int) -> bool:
        """Have memory for so many bytes, now: to find none when it is written to would end the process."""
        if nbytes <= self._taken:
            return True
        wanted = min(self._room, -(-max(nbytes, 2 * self._taken, FIRST_NBYTES) // PAGE) * PAGE)
        free = free_memory()
        if wanted < nbytes or (free is not None and wanted > free):
            return False
        try:
            if not os.path.samestat(os.fstat(self._descriptor), self._file):
                return False  # an environment has closed it, and has a file of its own there
            os.posix_fallocate(self._descriptor, self._offset, wanted)
        except OSError:
            return False
        self._taken = wanted
        return True


class Tray:
    """The caller's place for what one worker is asked for."""

    def __init__(self, memory: memoryview, descriptor: int, offset: int) -> None:
        """``descriptor`` is that of the memory, in which the mailbox begins at ``offset``."""
        self._memory = memory[ROOM - ORDER_ROOM :]
        self._ground = Ground(descriptor, offset + ROOM - ORDER_ROOM, ORDER_ROOM)

    def write(self, data: bytes) -> bool:
        """Write what is asked for, if there is room."""
        if not self._ground.holds(len(data)):
            return False
        self._memory[: len(data)] = data
        return True

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.release()


class Outbox:
    """The worker's side of its mailbox."""

    def __init__(self, memory: memoryview, descriptor: int, offset: int) -> None:
        """``descriptor`` is that of the memory, in which the mailbox begins at ``offset``."""
        self._memory, self._orders = memory[: ROOM - ORDER_ROOM], memory[ROOM - ORDER_ROOM :]
        self._list = memory[:LIST_NBYTES].cast("q")
        self._ground = Ground(descriptor, offset, len(self._memory))
        self._unread: deque[tuple[int, int]] = deque()
        """Where letters lie that the caller has not read."""
        self.count = 0
        """How many have been written."""

    def write(self, sequence: int, about: int, data: bytes, num_read: int) -> bool:
        """Write a letter, if there is room, which the caller sees when it is told the new count. So many have been read."""
        unread, size = self._unread, len(data)
        while len(unread) > self.count - num_read:
            unread.popleft()
        begin = self._place_for(size)
        if begin < 0 or not self._ground.holds(begin + size):
            return False
        self._memory[begin : begin + size] = data
        line = self.count % LINES * LINE
        words = self._list
        words[line], words[line + 1], words[line + 2], words[line + 3] = sequence, about, begin, size
        unread.append((begin, begin + size))
        self.count += 1
        return True

    def _place_for(self, size: int) -> int:
        """Where so many bytes are free; negative if they are nowhere."""
        unread, room = self._unread, len(self._memory)
        if not unread:
            return LIST_NBYTES if LIST_NBYTES + size <= room else -1
        oldest, end = unread[0][0], unread[-1][1]
        if len(unread) == LINES:
            return -1
        if end <= oldest:  # the newest lie before the oldest
            return end if end + size <= oldest else -1
        if LIST_NBYTES + size <= oldest:
            return LIST_NBYTES
        return end if end + size <= room else -1

    def order(self, size: int) -> memoryview:
        """What the caller has asked for, in so many bytes."""
        return self._orders[:size]

    def take_away(self) -> None:
        """Let nobody in this process use it any more."""
        self._list.release()
        self._memory.release()
        self._orders.release()


class Inbox:
    """The caller's side of one mailbox."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._list = memory[:LIST_NBYTES].cast("q")
        self.num_read = 0

    def read(self, count: int) -> Iterator[Letter]:
        """The letters that have not been read, of so many in all; each is to be used before the next."""
        while self.num_read < count:
            line = self.num_read % LINES * LINE
            sequence, about, begin, size = self._list[line : line + LINE]
            self.num_read += 1
            yield Letter(sequence, about, self._memory[begin : begin + size])

    def close(self) -> None:
        """Let go of the memory."""
        self._list.release()
        self._memory.release()


# What is written: plain values only, because names of classes and arrays take longer than all the rest.
_Rows = tuple[int, int] | list[int]


def encoded(outcome: Outcome) -> bytes:
    """What an outcome tells, where nobody has raised. Raises whatever pickling raises."""
    infos = [_plain_columns(entry) if isinstance(entry, Columns) else entry for entry in outcome.infos]
    loose = [
        (_plain_rows(entry[0]), *entry[1:]) if isinstance(entry, LooseColumn) else entry for entry in outcome.loose
    ]
    return dumps((infos, loose))


def decoded(data: memoryview) -> Outcome:
    """The same as an outcome."""
    plain_infos, plain_loose = pickle.loads(data)
    infos: EnvInfos = [entry if type(entry[0]) is int else _columns(*entry) for entry in plain_infos]
    loose: LooseValues = [
        entry if type(entry[0]) is int else LooseColumn(_rows(entry[0]), *entry[1:]) for entry in plain_loose
    ]
    return Outcome(infos, loose, [], [])


def _plain_rows(rows: Rows) -> _Rows:
    return (rows.start, rows.stop) if isinstance(rows, range) else rows


def _rows(plain: _Rows) -> Rows:
    return range(*plain) if isinstance(plain, tuple) else plain


def _plain_columns(columns: Columns) -> tuple[Any, ...]:
    return _plain_rows(columns.rows), {
        name: column if isinstance(column, list) else (column.dtype.str, column.shape, column.tobytes())
        for name, column in columns.values.items()
    }


def _columns(rows: _Rows, plain: dict[str, Any]) -> Columns:
    return Columns(
        _rows(rows),
        {
            name: column if isinstance(column, list) else np.frombuffer(column[2], column[0]).reshape(column[1]).copy()
            for name, column in plain.items()
        },
    )
