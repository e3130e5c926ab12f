"""What a supervisor hands on, as it is, to the backend that it watches.

Said one by one: a class with a ``__getattr__`` is slower at everything that it has itself, and every step goes through a
supervisor.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from shoal.vector.backends.base import Backend


class Watched:
    """Stands before a backend, and looks like it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.name, self.in_process, self.num_workers = backend.name, backend.in_process, backend.num_workers
        self._clock, self._sleep = backend.clock, backend.sleep

    @property
    def backend(self) -> Backend:
        """The one that is watched."""
        return self._backend

    def start(self) -> None:
        """As of the backend."""
        self._backend.start()

    def doorbell(self) -> AbstractContextManager[int | None]:
        """As of the backend."""
        return self._backend.doorbell()

    def progress(self, worker: int) -> int | None:
        """As of the backend."""
        return self._backend.progress(worker)

    def is_here(self, worker: int) -> bool:
        """As of the backend."""
        return self._backend.is_here(worker)

    def kill(self, worker: int) -> None:
        """As of the backend; what follows is a replacement."""
        self._backend.kill(worker)

    def clock(self) -> float:
        """As of the backend."""
        return self._clock()

    def sleep(self, seconds: float, /) -> None:
        """As of the backend."""
        self._sleep(seconds)

    def memory(self, worker: int) -> int | None:
        """As of the backend."""
        return self._backend.memory(worker)

    def stack(self, worker: int) -> str:
        """As of the backend."""
        return self._backend.stack(worker)

    def start_spare(self) -> bool:
        """As of the backend."""
        return self._backend.start_spare()

    def end_spare(self) -> None:
        """As of the backend."""
        self._backend.end_spare()
