"""Waiting for workers: who has sent something, and who has ended.

On Linux one persistent epoll watches the sockets and the processes.
"""

from __future__ import annotations

import functools
import select
import selectors
import time
from typing import NamedTuple, Protocol

from shoal.vector.backends.fork_guard import disown, own
from shoal.vector.backends.shared_buffer import is_portable
from shoal.vector.interrupts import allowed
from shoal.vector.patience import SPIN_SECONDS, look

ASK_SECONDS = 0.25


class Ready(NamedTuple):
    """Workers that have something to tell."""

    talking: list[int]
    """They have sent something, have closed their socket, or have room for what waits to be sent."""
    ended: list[int]
    """Their process may have ended."""


class Waiter(Protocol):
    """Waits until a worker has sent something, or ended."""

    patience: float
    """For how many seconds to look before sleeping."""

    def watch(self, worker: int, channel: int, sentinel: int) -> None:
        """Begin to watch a worker."""

    def watch_for_room(self, worker: int, wanted: bool) -> None:
        """Also report when the worker's socket takes more, or no longer."""

    def wait(self, timeout: float | None) -> Ready:
        """Until something happens, or for ``timeout`` seconds."""

    def fileno(self) -> int | None:
        """A descriptor that can be read when ``wait`` has something, where there is one."""

    def forget(self, worker: int) -> None:
        """Stop watching a worker."""

    def close(self) -> None:
        """Stop watching anybody."""


def make_waiter() -> Waiter:
    """The quick one on Linux, the portable one elsewhere."""
    return PortableWaiter() if is_portable() else EpollWaiter()


class EpollWaiter:
    """One persistent epoll over sockets and process descriptors."""

    patience = 0.0

    def __init__(self) -> None:
        self._epoll = select.epoll()
        own(self._epoll.fileno())
        self._channels: dict[int, int] = {}
        self._sentinels: dict[int, int] = {}
        self._last_wait = 0.0
        self._look = functools.partial(self._epoll.poll, 0)

    def watch(self, worker: int, channel: int, sentinel: int) -> None:
        self._epoll.register(channel, select.EPOLLIN)
        self._channels[channel] = worker
        if sentinel >= 0:
            self._epoll.register(sentinel, select.EPOLLIN)
            self._sentinels[sentinel] = worker

    def watch_for_room(self, worker: int, wanted: bool) -> None:
        for channel, owner in self._channels.items():
            if owner == worker:
                self._epoll.modify(channel, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))

    def wait(self, timeout: float | None) -> Ready:
        patience = self.patience if timeout is None else min(self.patience, timeout)
        found, waited = look(self._look, patience if self._last_wait < SPIN_SECONDS else 0.0)
        if not found and timeout != 0:
            begin = time.perf_counter()
            with allowed:  # nothing has been taken yet, so nothing is lost
                found = self._epoll.poll(timeout)
            waited += time.perf_counter() - begin
        self._last_wait = waited
        channels, sentinels = self._channels, self._sentinels
        return Ready(
            [channels[descriptor] for descriptor, _ in found if descriptor in channels],
            [sentinels[descriptor] for descriptor, _ in found if descriptor in sentinels],
        )

    def fileno(self) -> int:
        return self._epoll.fileno()

    def forget(self, worker: int) -> None:
        for watched in (self._channels, self._sentinels):
            for descriptor in [descriptor for descriptor, owner in watched.items() if owner == worker]:
                self._epoll.unregister(descriptor)
                del watched[descriptor]

    def close(self) -> None:
        disown(self._epoll.fileno())
        self._epoll.close()


class PortableWaiter:
    """A selector over the sockets; now and then it asks whether the processes are still there. It never looks."""

    patience = 0.0

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._channels: dict[int, int] = {}

    def watch(self, worker: int, channel: int, sentinel: int) -> None:
        self._selector.register(channel, selectors.EVENT_READ, worker)
        self._channels[worker] = channel

    def watch_for_room(self, worker: int, wanted: bool) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
        self._selector.modify(self._channels[worker], events, worker)

    def wait(self, timeout: float | None) -> Ready:
        with allowed:
            found = self._selector.select(ASK_SECONDS if timeout is None else min(timeout, ASK_SECONDS))
        return Ready([key.data for key, _ in found], [] if found else list(self._channels))

    def fileno(self) -> int | None:
        return self._selector.fileno() if hasattr(self._selector, "fileno") else None

    def forget(self, worker: int) -> None:
        if worker in self._channels:
            self._selector.unregister(self._channels.pop(worker))

    def close(self) -> None:
        self._selector.close()
