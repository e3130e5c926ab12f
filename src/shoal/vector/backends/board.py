"""The board: a few numbers that the caller and its workers all see, so that an ordinary step needs no message.

::

    caller                                                     worker
    ORDERED = 17  ──────────────── seen by who looks ────────▶ steps its environments, PROGRESS = 3, 4, 5 ...
                  ◀─────────────── seen by who looks ───────── DONE = 17

The same goes for a step of one of two halves of the environments, such as `split(2)` makes: each has numbers of its own,
``ORDERED_HALF`` and ``DONE_HALF``, because both may be under way. What was asked first is done first, whether it is on the
board or in the mail.

What environments tell may be on a sheet in the arena instead of in a message (``info_forms.py``): then ``TOLD`` becomes the
number of the step as well, and ``FORM`` that of the form.

Or it is in a letter in the worker's mailbox, which lies behind the board in the same memory (``mailboxes.py``): then
``LETTERS`` has counted up before. How many the caller has read is ``LETTERS_READ``. If there is more to say about an order than
its number, it lies there too, ``ORDER_NBYTES`` of it, and ``ORDER_WRITTEN`` is that number.

An environment that was asked alone reports itself in the arena: its *ticket* becomes the number of the command. A caller that
waits for several of these says how many arrivals will be ``ENOUGH``, and is not woken for fewer.

Everything else is mail: a message on the socket, after which ``SENT`` or ``ANSWERED`` counts up, so that who looks at the
board alone learns of it too. Who goes to sleep says so first and looks once more; the other side then also rings: a
message without content on the socket, which wakes.

Two processors may see two writes to different places in either order, so in principle both sides can miss each other:
one sees the other still awake, the other sees nothing to do; or two workers each see one arrival less than is enough. So the
first sleep is short, after which everything has been seen, and so is every sleep until enough have arrived.

Results must be visible before ``DONE`` is. x86 promises that writes become visible in their order; other processors do
not without an instruction that Python lacks, so there the board is used for ``PROGRESS`` alone, and steps travel as
messages, which costs some microseconds.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, Final

from shoal.vector.backends.mailboxes import ROOM, Inbox, Letter, Outbox, Tray, mailbox, nbytes_for
from shoal.vector.backends.shared_buffer import SharedBuffer, is_portable, map_shared
from shoal.vector.cpus import move_to
from shoal.vector.halves import ALL, NUM_HALVES
from shoal.vector.patience import LONG_SECONDS, SPIN_SECONDS, look

# Each group has a cache line of its own, so that writing to one does not disturb who looks at another.
PROGRESS: Final = 0
ORDERED, SENT, CALLER_ASLEEP, ENOUGH, ORDERED_HALF, LOOKS, LETTERS_READ = 8, 9, 10, 11, 12, 14, 15
ORDER_WRITTEN, ORDER_NBYTES = 1, 2  # seldom looked at: what lies in the mailbox about an order, and about which
DONE, ANSWERED, WORKER_ASLEEP, ARRIVED, DONE_HALF, LETTERS = 16, 17, 18, 19, 20, 22
TOLD, FORM = 24, 28  # and after each the same for the halves
STRIDE: Final = 32

PLACE_NBYTES = STRIDE * 8
PAGE = 4096

Order = tuple[int, int]
"""A step: its sequence number, and of which half."""

FIRST_SLEEP_SECONDS = 0.01
NAP_SECONDS = 0.05


def writes_keep_their_order() -> bool:
    """Whether this machine shows writes to other processors in the order in which they were made."""
    return not is_portable() and platform.machine().lower() in ("x86_64", "amd64")


class Board:
    """The caller's side, for all workers."""

    def __init__(self, num_workers: int, *, has_mailboxes: bool = False) -> None:
        self._num_workers = num_workers
        size = -(-num_workers * PLACE_NBYTES // PAGE) * PAGE
        try:
            self._buffer, allocated = _allocated(size, nbytes_for(num_workers) if has_mailboxes else 0)
        except OSError as error:
            if not has_mailboxes or error.errno != errno.ENOMEM:
                raise
            has_mailboxes = False  # this process may not have so much address space
            self._buffer, allocated = _allocated(size, 0)
        memory = memoryview(allocated).cast("B")
        self._words = memory[: num_workers * PLACE_NBYTES].cast("q")
        self._inboxes = (
            [Inbox(mailbox(memory, worker, num_workers)) for worker in range(num_workers)] if has_mailboxes else []
        )
        self._trays = [
            Tray(mailbox(memory, worker, num_workers), self._buffer.fd, size + worker * ROOM)
            for worker in range(len(self._inboxes))
        ]
        self._mail_read = [0] * num_workers
        self._arrivals_seen = 0

    @property
    def num_mailboxes(self) -> int:
        """How many mailboxes lie behind it."""
        return len(self._inboxes)

    @property
    def fd(self) -> int:
        """What workers inherit."""
        return self._buffer.fd

    def clear(self, worker: int) -> None:
        """Forget what a former worker in this place has written. What holds for all stays: how many have arrived."""
        for word in range(STRIDE):
            if word not in (ARRIVED, LOOKS):
                self._words[worker * STRIDE + word] = 0
        self._mail_read[worker] = 0
        if self._inboxes:
            self._inboxes[worker].num_read = 0
        # It may have died between finishing something and counting it. Who counts too few is only woken too early.
        self._arrivals_seen = min(self._arrivals_seen, sum(self._words[ARRIVED::STRIDE]))

    def progress(self, worker: int) -> int | None:
        """The environment this worker is, or was when it died, working on."""
        row = self._words[worker * STRIDE + PROGRESS]
        return row - 1 if row else None

    def line(self, workers: Sequence[int], half: int = ALL) -> Line:
        """To ask these for steps of all their environments, or of those of one half."""
        return Line(self._words, self._mail_read, workers, half)

    def let_look(self, looks: bool) -> None:
        """Say whether workers look around while they wait, or sleep."""
        for worker in range(self._num_workers):
            self._words[worker * STRIDE + LOOKS] = looks

    def mail_sent(self, worker: int) -> None:
        """Say that there is a message on the socket."""
        self._words[worker * STRIDE + SENT] += 1

    def write_order(self, worker: int, sequence: int, data: bytes) -> bool:
        """Say more about a step that is about to be ordered of a worker that has none; returns whether there is room."""
        if not self._trays or not self._trays[worker].write(data):
            return False
        first = worker * STRIDE
        self._words[first + ORDER_NBYTES], self._words[first + ORDER_WRITTEN] = len(data), sequence
        return True

    def letters(self, worker: int) -> Iterator[Letter]:
        """Those that have come since the last time this was asked. Each is to be read before the next is taken."""
        if not self._inboxes:
            return
        inbox, words, first = self._inboxes[worker], self._words, worker * STRIDE
        count = words[first + LETTERS]
        if inbox.num_read != count:
            yield from inbox.read(count)
            words[first + LETTERS_READ] = count

    def has_letters(self, workers: Sequence[int]) -> bool:
        """Whether one of these workers has written some that have not been read."""
        if not self._inboxes:
            return False
        words, inboxes = self._words, self._inboxes
        return any(words[worker * STRIDE + LETTERS] != inboxes[worker].num_read for worker in workers)

    def is_done(self, worker: int, sequence: int) -> bool:
        """Whether the worker has finished this ordinary step."""
        return self._words[worker * STRIDE + DONE] == sequence

    def form_filled_in(self, worker: int, half: int) -> tuple[int, int]:
        """The last step about which this worker's environments have told something on the sheet, and the form it is in."""
        first = worker * STRIDE + half - ALL
        return self._words[first + TOLD], self._words[first + FORM]

    def has_mail(self, worker: int) -> bool:
        """Whether messages have been sent since the last time this was asked."""
        count = self._words[worker * STRIDE + ANSWERED]
        if count == self._mail_read[worker]:
            return False
        self._mail_read[worker] = count
        return True

    def arrivals_seen(self, count: int) -> None:
        """The caller has learned of so many environments that were asked alone."""
        self._arrivals_seen += count

    def fall_asleep(self, arrivals: int = 0) -> None:
        """From now on, workers ring; for environments that were asked alone, when there are so many more."""
        for worker in range(self._num_workers):
            self._words[worker * STRIDE + ENOUGH] = self._arrivals_seen + arrivals
            self._words[worker * STRIDE + CALLER_ASLEEP] = 1

    def wake_up(self) -> None:
        """They need not ring any more."""
        for worker in range(self._num_workers):
            self._words[worker * STRIDE + CALLER_ASLEEP] = 0

    def close(self) -> None:
        """Give the memory back."""
        self._words.release()
        for inbox in self._inboxes:
            inbox.close()
        for tray in self._trays:
            tray.close()
        self._buffer.close()


def _allocated(nbytes: int, reserved: int) -> tuple[SharedBuffer, ctypes.Array[Any]]:
    buffer = SharedBuffer("shoal-board")
    try:
        return buffer, buffer.allocate(nbytes, reserved)
    except BaseException:
        buffer.close()
        raise


class Line:
    """Steps that the same workers are asked for again and again. All that is the same each time is found out once."""

    __slots__ = ("_mail_read", "_pairs", "_places", "_words")

    def __init__(self, words: memoryview, mail_read: Sequence[int], workers: Sequence[int], half: int) -> None:
        order, done = (ORDERED, DONE) if half == ALL else (ORDERED_HALF + half, DONE_HALF + half)
        self._words, self._mail_read = words, mail_read
        self._pairs = [(worker * STRIDE + order, worker * STRIDE + WORKER_ASLEEP, worker) for worker in workers]
        self._places = [(worker * STRIDE + done, worker * STRIDE + ANSWERED, worker) for worker in workers]

    def order(self, sequence: int) -> list[int]:
        """Ask for a step; returns who sleeps and has to be rung."""
        words, asleep = self._words, []
        for place, sleeps, worker in self._pairs:
            words[place] = sequence
            if words[sleeps]:
                asleep.append(worker)
        return asleep

    def wait(self, sequence: int, seconds: float) -> bool:
        """Look for so long at most whether all have finished it; not if one of them has sent a message."""
        words, mail_read, waiting = self._words, self._mail_read, self._places[:]

        def is_over() -> bool:
            while waiting and words[waiting[-1][0]] == sequence:
                waiting.pop()
            return not waiting or words[waiting[-1][1]] != mail_read[waiting[-1][2]]

        look(is_over, seconds)
        return not waiting


class Desk:
    """One worker's side."""

    def __init__(self, board_fd: int, worker: int, processor: int, num_mailboxes: int = 0) -> None:
        memory = memoryview(map_shared(board_fd))
        words = memory[: len(memory) - nbytes_for(num_mailboxes)].cast("q")
        self.words = words[worker * STRIDE : (worker + 1) * STRIDE]
        self._board = words
        self._outbox: Outbox | None = None
        if num_mailboxes:
            offset = len(memory) - nbytes_for(num_mailboxes - worker)
            self._outbox = Outbox(mailbox(memory, worker, num_mailboxes), board_fd, offset)
        self.progress = self.words[PROGRESS : PROGRESS + 1]
        self._last_order = self._mail_read = 0  # what has been asked before it sat down is asked still
        self._last_halves = [0] * NUM_HALVES
        self._last_wait = self._arrived = 0.0
        self._processors = [os.sched_getaffinity(0), {processor}] if processor >= 0 else []
        """Those to run on while it sleeps between steps, and while it looks."""
        self._looked = 0

    def patience(self) -> float:
        """For how many seconds to look before sleeping, as the caller has found out."""
        looks = self.words[LOOKS]
        if looks != self._looked:
            self._looked = looks
            if self._processors:
                move_to(self._processors[looks])
        return SPIN_SECONDS if looks else 0.0

    def take_away(self) -> None:
        """Let nobody in this process use it any more: each further look at it, or note on it, is an error."""
        self.progress.release()
        self.words.release()
        self._board.release()
        if self._outbox is not None:
            self._outbox.take_away()

    def wait(
        self, sleep: Callable[[float | None], bool], next_mail: Callable[[], int], patiently: bool
    ) -> Order | None:
        """The next step that is ordered, or ``None`` when there is mail.

        ``sleep`` sleeps for so many seconds, or until there is mail, and returns whether there is.
        ``next_mail`` is the number of the next message.
        """
        if self._glance():
            self._arrived, self._last_wait = perf_counter(), 0.0
        else:
            self._wait_for_anything(sleep, patiently)
        order = self.words[ORDERED]
        if order != self._last_order:
            self._last_order = order
            return order, ALL
        return self._next_half(next_mail)

    def _wait_for_anything(self, sleep: Callable[[float | None], bool], patiently: bool) -> None:
        begin = perf_counter()
        may_look = patiently and self._last_wait < SPIN_SECONDS and begin - self._arrived < LONG_SECONDS
        patience = self.patience()
        found, _ = look(self._glance, patience if may_look else 0.0)
        if not found:
            self.words[WORKER_ASLEEP] = 1
            found = self._glance() or sleep(FIRST_SLEEP_SECONDS) or self._glance() or sleep(None)
            self.words[WORKER_ASLEEP] = 0
        self._arrived = perf_counter()
        self._last_wait = self._arrived - begin

    def _next_half(self, next_mail: Callable[[], int]) -> Order | None:
        sequence, half = self._first_half()
        if half == ALL or (self.words[SENT] != self._mail_read and next_mail() < sequence):
            return None
        self._last_halves[half] = sequence
        return sequence, half

    def half_before(self, sequence: int) -> Order | None:
        """A half that was ordered before a message with this number was sent."""
        asked, half = self._first_half()
        if half == ALL or asked > sequence:
            return None
        self._last_halves[half] = asked
        return asked, half

    def _first_half(self) -> Order:
        """The half that was ordered first and has not stepped; ``ALL`` if there is none."""
        words, found = self.words, None
        while True:
            sequence, half = 0, ALL
            for number, last in enumerate(self._last_halves):
                asked = words[ORDERED_HALF + number]
                if asked != last and (half == ALL or asked < sequence):
                    sequence, half = asked, number
            # Looked at once more: the other half may have been ordered before this one, and after it was looked at.
            if half in (ALL, found):
                return sequence, half
            found = half

    def mail_read(self) -> None:
        """One message has been taken from the socket. There may be more, so it is counted and not only looked at."""
        self._mail_read += 1

    def _glance(self) -> bool:
        words, (first, second) = self.words, self._last_halves
        return (
            words[ORDERED] != self._last_order
            or words[SENT] != self._mail_read
            or words[ORDERED_HALF] != first
            or words[ORDERED_HALF + 1] != second
        )

    def arrived(self, count: int = 1) -> bool:
        """Say that environments that were asked alone are done; returns whether the caller has to be rung."""
        words = self.words
        words[ARRIVED] += count
        return bool(words[CALLER_ASLEEP]) and sum(self._board[ARRIVED::STRIDE]) >= words[ENOUGH]

    def half_done(self, half: int, sequence: int, count: int) -> bool:
        """Say that a step of a half, of so many environments, is finished; returns whether the caller has to be rung."""
        self.words[DONE_HALF + half] = sequence
        return self.arrived(count)

    def order(self, sequence: int) -> memoryview | None:
        """What else there is to know about an order, if there is anything."""
        if self._outbox is None or self.words[ORDER_WRITTEN] != sequence:
            return None
        return self._outbox.order(self.words[ORDER_NBYTES])

    def leave(self, sequence: int, about: int, letter: bytes) -> bool:
        """Leave a letter about a command in the mailbox; returns whether there is a mailbox, and room in it."""
        outbox, words = self._outbox, self.words
        if outbox is None or not outbox.write(sequence, about, letter, words[LETTERS_READ]):
            return False
        words[LETTERS] = outbox.count
        return True

    def told(self, half: int, sequence: int, form: int) -> None:
        """Say that a form is filled in with what environments tell about a step, which is about to be done."""
        self.words[FORM + half - ALL], self.words[TOLD + half - ALL] = form, sequence

    def done(self, sequence: int) -> bool:
        """Say that an ordinary step is finished; returns whether the caller sleeps and has to be rung."""
        self.words[DONE] = sequence
        return bool(self.words[CALLER_ASLEEP])

    def mail_sent(self) -> None:
        """Say that there is a message on the socket."""
        self.words[ANSWERED] += 1
