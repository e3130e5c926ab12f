"""Messages over a socket: whatever their size, however they are cut, and never more than was promised."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import ProtocolError
from shoal.vector.backends.board import Board, Desk
from shoal.vector.backends.channel import HEADER, MAGIC, MAX_PICKLED, MOST_KEPT, Channel, Frame, WorkerChannel


@pytest.fixture
def pair() -> Iterator[tuple[Channel, WorkerChannel]]:
    ours, theirs = socket.socketpair()
    board = Board(1)
    desk = Desk(board.fd, 0, processor=-1)
    yield Channel(ours), WorkerChannel(theirs, desk, uses_board=False)
    ours.close()
    theirs.close()
    for view in (desk.progress, desk.words, desk._board):
        view.release()
    board.close()


def drain(channel: Channel, count: int) -> list[Frame]:
    frames: list[Frame] = []
    while len(frames) < count:
        more, closed = channel.receive()
        frames += more
        assert not closed
    return frames


def test_messages_arrive_in_order_and_whole(pair: tuple[Channel, WorkerChannel]) -> None:
    channel, worker = pair
    channel.max_raw = 10
    for sequence in range(5):
        worker.send(1, sequence, 100, b"p" * sequence, [memoryview(b"r" * sequence)])
    frames = drain(channel, 5)
    assert [(frame.sequence, bytes(frame.pickled), bytes(frame.raw)) for frame in frames] == [
        (sequence, b"p" * sequence, b"r" * sequence) for sequence in range(5)
    ]


def test_a_message_larger_than_the_socket_passes_both_ways(pair: tuple[Channel, WorkerChannel]) -> None:
    channel, worker = pair
    channel.max_raw = 10**8
    payload = bytes(range(256)) * 20_000
    assert not channel.send(0, 7, 3, payload, [memoryview(payload)])
    received: list[Frame] = []

    def echo() -> None:
        frame = worker.receive()
        assert isinstance(frame, Frame)
        received.append(frame)
        worker.send(0, 8, 100, payload, [memoryview(payload)])

    thread = threading.Thread(target=echo)
    thread.start()
    while not channel.flush():
        pass
    (frame,) = drain(channel, 1)
    thread.join()
    assert received[0] is not None
    assert bytes(received[0].pickled) == bytes(received[0].raw) == payload
    assert bytes(frame.pickled) == bytes(frame.raw) == payload


def test_long_messages_in_a_row_do_not_overwrite_each_other(pair: tuple[Channel, WorkerChannel]) -> None:
    channel, worker = pair
    sizes = [300_000, 10, 2_000_000, 100_000, 2_000_000, MOST_KEPT + 1, 5, 70_000] * 3
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]

    def send_all() -> None:
        for payload in payloads:
            worker.send(0, 1, 100, payload)

    thread = threading.Thread(target=send_all)
    thread.start()
    found: list[bytes] = []
    while len(found) < len(payloads):
        found += [bytes(frame.pickled) for frame in channel.receive()[0]]
    thread.join()
    assert [hash(each) for each in found] == [hash(each) for each in payloads]


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5), st.lists(st.integers(1, 500), min_size=1))
def test_however_a_stream_is_cut_the_messages_are_the_same(payloads: list[bytes], cuts: list[int]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours)
        stream = b"".join(HEADER.pack(MAGIC, 0, i, 100, 0, len(data), 0) + data for i, data in enumerate(payloads))
        found: list[bytes] = []
        position = 0
        while position < len(stream):
            size = cuts[position % len(cuts)]
            theirs.sendall(stream[position : position + size])
            position += size
            found += [bytes(frame.pickled) for frame in channel.receive()[0]]
        assert found == payloads


def test_bytes_that_are_no_message_are_refused(pair: tuple[Channel, WorkerChannel]) -> None:
    channel, worker = pair
    worker.socket.sendall(b"garbage that is long enough to be a header")
    with pytest.raises(ProtocolError, match="^bytes that are not a message: b'garbage that is "):
        channel.receive()


@pytest.mark.parametrize(("pickled", "raw"), [(MAX_PICKLED + 1, 0), (0, 1)])
def test_a_message_that_announces_too_much_is_refused_before_memory_is_taken(
    pair: tuple[Channel, WorkerChannel], pickled: int, raw: int
) -> None:
    channel, worker = pair
    worker.socket.sendall(HEADER.pack(MAGIC, 0, 1, 100, 0, pickled, raw))
    with pytest.raises(ProtocolError, match=r"a message that claims to have [\d,]+ bytes; infos and other data"):
        channel.receive()


def test_the_end_of_the_other_side_is_seen(pair: tuple[Channel, WorkerChannel]) -> None:
    channel, worker = pair
    worker.socket.close()
    assert channel.receive() == ([], True)
    assert channel.send(0, 1, 1)
    assert channel.send(0, 2, 1, b"x" * 10)


def test_a_worker_sees_the_end_of_the_caller_even_in_a_message(pair: tuple[Channel, WorkerChannel]) -> None:
    channel, worker = pair
    channel.socket.sendall(HEADER.pack(MAGIC, 0, 1, 3, 0, 100, 0) + b"half")
    channel.socket.close()
    assert worker.receive() is None
