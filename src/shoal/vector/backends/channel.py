"""A message over a socket: a fixed header, then a pickled part, then raw bytes.

::

    magic  generation  sequence  kind  place  pickled length  raw length  │ pickled ... │ raw ...
    u32    u32         u64       u32   u32    u32             u64

The pickled part holds what has no fixed size (infos, loose values, exceptions) and is empty on an ordinary step. The raw
part is used by ``pipes`` alone: the rows of the arena. A reply belongs to the command with its generation and sequence
number; any other is dropped.

``Channel`` is the caller's end and never blocks: what the socket does not take waits in an outbox, so that the two sides
can never both be waiting for the other to read. ``WorkerChannel`` is the worker's end and does block.
"""

from __future__ import annotations

import functools
import select
import socket
import struct
import threading
import time
from collections import deque
from typing import NamedTuple

from shoal.vector.backends.board import Desk, Order
from shoal.vector.errors import ProtocolError
from shoal.vector.patience import LONG_SECONDS, SPIN_SECONDS, look

HEADER = struct.Struct("<IIQIIIQ")
MAGIC = int.from_bytes(b"shoa", "little")
MAX_PICKLED = 256 * 2**20
UNLIMITED = 2**63

# What a message is, when it is no command. A reply is for all environments of a worker, an arrival for the one whose index
# is in ``place``; a message that rings only wakes.
REPLY, LOG, RING, ARRIVAL, FORM = 100, 101, 102, 103, 104
RECEIVE = 2**16
PIECE = 2**16  # sockets hold three of these where nobody has changed their size
MOST_KEPT = 2**24


class Frame(NamedTuple):
    """One message."""

    generation: int
    sequence: int
    kind: int
    place: int
    pickled: memoryview
    raw: memoryview


_NOTHING = memoryview(b"")


Header = tuple[int, int, int, int, int, int]
"""Generation, sequence, kind, place and the two lengths."""


def parse_header(data: memoryview | bytearray, max_pickled: int, max_raw: int) -> Header:
    """Read a header; refuses what is not ours or too large to be."""
    magic, generation, sequence, kind, place, pickled, raw = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ProtocolError(f"bytes that are not a message: {bytes(data[:16])!r}")
    if pickled > max_pickled or raw > max_raw:
        raise ProtocolError(
            f"a message that claims to have {pickled + raw:,} bytes; infos and other data without a fixed size may "
            f"have {max_pickled:,} bytes for each worker and step"
        )
    return generation, sequence, kind, place, pickled, raw


class Channel:
    """The caller's end. ``max_raw`` is the largest raw part that makes sense."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.max_raw = 0
        self._outbox: deque[memoryview] = deque()
        self._inbox = bytearray(RECEIVE)
        self._partial = bytearray()
        self._body: memoryview | None = None
        self._body_filled = 0
        self._room = memoryview(bytearray())
        """For large messages, again and again: memory that nobody has touched yet takes longer than what it is for."""
        self._is_room_free = True
        self._header: Header | None = None

    def send(
        self, generation: int, sequence: int, kind: int, pickled: bytes = b"", raw: list[memoryview] | None = None
    ) -> bool:
        """Send, or keep for later; returns whether everything is on its way."""
        if not pickled and not raw and not self._outbox:
            header = HEADER.pack(MAGIC, generation, sequence, kind, 0, 0, 0)
            try:
                if self.socket.send(header) == HEADER.size:
                    return True
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                pass
        raw = raw or []
        header = HEADER.pack(MAGIC, generation, sequence, kind, 0, len(pickled), sum(map(len, raw)))
        # The arena may change before the socket takes it, so raw parts are copied once they have to wait.
        self._outbox.extend([memoryview(header + pickled), *(memoryview(bytes(part)) for part in raw)])
        return self.flush()

    def flush(self) -> bool:
        """Send what is in the outbox, as far as the socket takes it; returns whether it is empty now."""
        while self._outbox:
            try:
                sent = self.socket.sendmsg([*self._outbox][:64])
            except BlockingIOError:
                return False
            except (BrokenPipeError, ConnectionResetError):
                self._outbox.clear()  # the death of the other side is noticed by who watches the processes
                return True
            while sent:
                if sent < len(self._outbox[0]):
                    self._outbox[0] = self._outbox[0][sent:]
                    break
                sent -= len(self._outbox.popleft())
            while self._outbox and not len(self._outbox[0]):
                self._outbox.popleft()
        return True

    def receive(self) -> tuple[list[Frame], bool]:
        """All complete messages that are there, and whether the other side has closed.

        What is in them is to be used before the next call.
        """
        frames: list[Frame] = []
        self._is_room_free = self._body is None or self._body.obj is not self._room.obj
        while True:
            try:
                if self._body is not None:
                    count = self.socket.recv_into(self._body[self._body_filled :])
                    self._body_filled += count
                else:
                    count = self.socket.recv_into(self._inbox)
            except BlockingIOError:
                return frames, False
            except ConnectionResetError:
                return frames, True
            if count == 0:
                return frames, True
            if self._body is not None:
                if self._body_filled == len(self._body):
                    frames.append(self._complete(self._body))
                continue
            self._split(count, frames)
            if count < RECEIVE and self._body is None:
                # The socket was emptied: asking once more would only cost a call.
                return frames, False

    def _split(self, count: int, frames: list[Frame]) -> None:
        """Take messages out of the ``count`` bytes that have just arrived."""
        if count == HEADER.size and not self._partial:
            # An ordinary step's reply: nothing but a header, and nothing behind it.
            header = parse_header(self._inbox, MAX_PICKLED, self.max_raw)
            if header[4] == header[5] == 0:
                frames.append(Frame(*header[:4], _NOTHING, _NOTHING))
                return
        view = memoryview(bytes(self._partial + self._inbox[:count]))
        offset = 0
        while len(view) - offset >= HEADER.size:
            self._header = parse_header(view[offset:], MAX_PICKLED, self.max_raw)
            offset += HEADER.size
            size = self._header[4] + self._header[5]
            if len(view) - offset < size:
                self._body, self._body_filled = self._room_for(size), len(view) - offset
                self._body[: self._body_filled] = view[offset:]
                offset = len(view)
                break
            frames.append(self._complete(view[offset : offset + size]))
            offset += size
        self._partial = bytearray(view[offset:])

    def _room_for(self, size: int) -> memoryview:
        if not self._is_room_free or size > MOST_KEPT:
            return memoryview(bytearray(size))
        self._is_room_free = False
        if len(self._room) < size:
            self._room = memoryview(bytearray(size))
        return self._room[:size]

    def _complete(self, body: memoryview) -> Frame:
        assert self._header is not None
        generation, sequence, kind, place, pickled, _ = self._header
        self._header = self._body = None
        return Frame(generation, sequence, kind, place, body[:pickled], body[pickled:])


class WorkerChannel:
    """The worker's end. Any thread may send; one thread receives. With a desk, ordinary steps are ordered on the board."""

    def __init__(self, sock: socket.socket, desk: Desk, *, uses_board: bool) -> None:
        sock.setblocking(True)
        self.socket = sock
        self._uses_board = uses_board
        self._desk = desk
        self._sending = threading.Lock()
        self._last_wait = self._arrived = 0.0
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._look = functools.partial(self._poll.poll, 0)

    def send(
        self,
        generation: int,
        sequence: int,
        kind: int,
        pickled: bytes = b"",
        raw: list[memoryview] | None = None,
        *,
        place: int = 0,
    ) -> None:
        """Send, and wait until it is on its way."""
        raw_size = sum(map(len, raw)) if raw else 0
        header = HEADER.pack(MAGIC, generation, sequence, kind, place, len(pickled), raw_size)
        with self._sending:
            # What is small goes together; to copy what is large would take longer than another call.
            parts = [header + pickled] if len(pickled) < PIECE else [header, pickled]
            for part in (*parts, *(raw or ())):
                self._hand_over(part)

    def _hand_over(self, data: bytes | memoryview) -> None:
        """In pieces that the socket holds, each announced: who looks at the board alone must make room for the next."""
        if not self._uses_board:
            self.socket.sendall(data)
            return
        view = memoryview(data)
        for begin in range(0, len(view), PIECE):
            self.socket.sendall(view[begin : begin + PIECE])
            self._desk.mail_sent()

    def move_to(self, desk: Desk) -> None:
        """Look at another place of the board from now on."""
        self._desk = desk

    def receive_first(self) -> Frame | None:
        """The first command, or ``None`` when the caller is gone.

        Until then nothing is written on the board: the caller may not know of this worker, and have another in its place.
        """
        frame = self._read()
        self._desk.mail_read()
        return frame

    def receive(self, *, patiently: bool = True) -> Frame | Order | None:
        """The next command, or what the board orders, or ``None`` when the caller is gone.

        Patience is looking for a while before sleeping.
        """
        while True:
            if not self._uses_board:
                self._wait(patiently)
            else:
                order = self._desk.wait(self._sleep, self._next_sequence, patiently)
                if order is not None:
                    return order
                mail = self._next_sequence()
                if mail == UNLIMITED:
                    continue  # what the board speaks of has been read already
                if (order := self._desk.half_before(mail)) is not None:
                    return order
            frame = self._read()
            if frame is None:
                return None
            if frame.kind != RING:
                if self._uses_board:
                    self._desk.mail_read()
                return frame

    def _next_sequence(self) -> int:
        """Of the next message, which stays where it is; ``UNLIMITED`` if there is none, zero when the caller is gone."""
        while self._look():
            head = self.socket.recv(HEADER.size, socket.MSG_PEEK | socket.MSG_WAITALL)
            if len(head) < HEADER.size:
                return 0
            _, sequence, kind, *_ = parse_header(memoryview(head), UNLIMITED, UNLIMITED)
            if kind != RING:
                return sequence
            self._exactly(HEADER.size)
        return UNLIMITED

    def _read(self) -> Frame | None:
        head = self._exactly(HEADER.size)
        if head is None:
            return None
        generation, sequence, kind, place, pickled, raw = parse_header(head, UNLIMITED, UNLIMITED)
        body = self._exactly(pickled + raw) if pickled + raw else _NOTHING
        if body is None:
            return None
        return Frame(generation, sequence, kind, place, body[:pickled], body[pickled:])

    def _sleep(self, seconds: float | None) -> bool:
        return bool(self._poll.poll(None if seconds is None else seconds * 1000))

    def _wait(self, patiently: bool) -> None:
        begin = time.perf_counter()
        may_look = patiently and self._last_wait < SPIN_SECONDS and begin - self._arrived < LONG_SECONDS
        patience = self._desk.patience()
        found, _ = look(self._look, patience if may_look else 0.0)
        if not found:
            self._poll.poll()
        self._arrived = time.perf_counter()
        self._last_wait = self._arrived - begin

    def _exactly(self, size: int) -> memoryview | None:
        try:
            data = self.socket.recv(size)
            if len(data) == size:
                return memoryview(data)
            if not data:
                return None
            whole = memoryview(bytearray(size))
            whole[: len(data)] = data
            filled = len(data)
            while filled < size:
                count = self.socket.recv_into(whole[filled:])
                if count == 0:
                    return None
                filled += count
        except ConnectionResetError:
            return None
        return whole
