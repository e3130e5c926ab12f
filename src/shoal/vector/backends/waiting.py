"""Waiting for workers: who has sent something, and who has ended.

On Linux one persistent epoll watches the sockets and the processes. Before it goes to sleep it looks a few times and yields
the processor in between: being woken costs more than many short steps do.
"""

from __future__ import annotations

import os
import select
import selectors
import time
from collections.abc import Iterable
from typing import Protocol

from shoal.vector.backends.fork_guard import disown, own
from shoal.vector.backends.shared_buffer import is_portable

SPIN_SECONDS = 100e-6


class Waiter(Protocol):
    """Waits until a worker has sent something, or ended."""

    def watch(self, worker: int, channel: int, sentinel: int) -> None: ...

    def watch_for_room(self, worker: int, channel: int, wanted: bool) -> None: ...

    def wants_room(self, worker: int) -> bool: ...

    def wait(self, timeout: float | None) -> Iterable[int]: ...

    def forget(self, worker: int) -> None: ...

    def close(self) -> None: ...


def make_waiter() -> Waiter:
    """The quick one on Linux, the portable one elsewhere."""
    return PortableWaiter() if is_portable() else EpollWaiter()


class EpollWaiter:
    """One persistent epoll over sockets and process descriptors."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        own(self._epoll.fileno())
        self._workers: dict[int, int] = {}
        self._wants_room: set[int] = set()

    def watch(self, worker: int, channel: int, sentinel: int) -> None:
        for descriptor in (channel, sentinel):
            if descriptor >= 0:
                self._workers[descriptor] = worker
                self._epoll.register(descriptor, select.EPOLLIN)

    def watch_for_room(self, worker: int, channel: int, wanted: bool) -> None:
        self._epoll.modify(channel, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))
        (self._wants_room.add if wanted else self._wants_room.discard)(worker)

    def wants_room(self, worker: int) -> bool:
        return worker in self._wants_room

    def wait(self, timeout: float | None) -> Iterable[int]:
        poll = self._epoll.poll
        ready = poll(0)
        if not ready and timeout != 0:
            clock, give_way = time.perf_counter, os.sched_yield
            stop = clock() + (SPIN_SECONDS if timeout is None else min(SPIN_SECONDS, timeout))
            while not ready and clock() < stop:
                give_way()
                ready = poll(0)
            if not ready:
                ready = poll(timeout)
        workers = self._workers
        return {workers[descriptor] for descriptor, _ in ready}

    def forget(self, worker: int) -> None:
        for descriptor in [fd for fd, owner in self._workers.items() if owner == worker]:
            self._epoll.unregister(descriptor)
            del self._workers[descriptor]
        self._wants_room.discard(worker)

    def close(self) -> None:
        disown(self._epoll.fileno())
        self._epoll.close()


class PortableWaiter:
    """A selector over the sockets; a closed socket stands for an ended process."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._channels: dict[int, int] = {}
        self._wants_room: set[int] = set()

    def watch(self, worker: int, channel: int, sentinel: int) -> None:
        self._channels[worker] = channel
        self._selector.register(channel, selectors.EVENT_READ, worker)

    def watch_for_room(self, worker: int, channel: int, wanted: bool) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
        self._selector.modify(channel, events, worker)
        (self._wants_room.add if wanted else self._wants_room.discard)(worker)

    def wants_room(self, worker: int) -> bool:
        return worker in self._wants_room

    def wait(self, timeout: float | None) -> Iterable[int]:
        ready = self._selector.select(0 if timeout == 0 else min(timeout or 0.5, 0.5))
        # Nothing for a while: a process may have died while a grandchild holds its socket open.
        return {key.data for key, _ in ready} or list(self._channels)

    def forget(self, worker: int) -> None:
        self._selector.unregister(self._channels.pop(worker))

    def close(self) -> None:
        self._selector.close()
