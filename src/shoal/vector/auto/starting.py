"""Starting a session while another one goes on.

Worker processes start in a thread, which mostly waits. Environments of this process are made between two steps of the caller, a
few milliseconds at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from time import perf_counter
from typing import Protocol

from shoal.vector.auto.trial import FirstMade
from shoal.vector.engine import Engine
from shoal.vector.messages import EnvFn
from shoal.vector.session import Form, Session

PORTION_SECONDS = 0.003
"""For which the caller is held up between two steps, about."""
CLOSE_SECONDS = 1.0
YIELD_SECONDS, YIELD_EVERY = 5e-5, 1e-3
"""The thread that starts workers waits for Python's lock after every call of the system. A caller that gives the lock up and
takes it back in every step, within less time than it takes to wake another thread, would never let it have the lock."""


class Starting(Protocol):
    """A session that is being started."""

    @property
    def session(self) -> Session | None:
        """It, if there is one yet."""

    def go_on(self) -> bool:
        """Do a little of it; returns whether it is done. Raises if it failed."""

    def abandon(self, seconds: float = CLOSE_SECONDS) -> None:
        """It is not wanted any more. Waits for so long at most until nothing of it is left."""


class InBackground:
    """Starts a session with worker processes."""

    def __init__(self, session: Session, form: Form) -> None:
        self.session = session
        self._form = form
        self._error: BaseException | None = None
        self._yielded_at = 0.0
        self._lock = threading.Lock()
        self._has_ended = self._is_unwanted = False
        # A daemon, because environments that are never made must not keep the program from ending.
        self._thread = threading.Thread(target=self._start, name="shoal-starting", daemon=True)
        self._thread.start()

    def _start(self) -> None:
        try:
            self.session.start()
            self.session.furnish(self._form)
        except BaseException as error:
            self._error = error
        with self._lock:
            self._has_ended = True
            is_unwanted = self._is_unwanted
        if is_unwanted:
            self.session.close(CLOSE_SECONDS, quietly=True)

    def go_on(self) -> bool:
        """See whether it has started."""
        if not self._has_ended:
            if perf_counter() - self._yielded_at > YIELD_EVERY:
                time.sleep(YIELD_SECONDS)
                self._yielded_at = perf_counter()
            return False
        if self._error is not None:
            raise self._error
        return True

    def abandon(self, seconds: float = CLOSE_SECONDS) -> None:
        """The thread ends what it has started, because nobody else knows how far that is."""
        with self._lock:
            self._is_unwanted = True
            has_ended = self._has_ended
        if has_ended:
            self.session.close(seconds, quietly=True)
        else:
            self.session.access.shut(0.0)  # so that it comes out of whatever it waits for
        self._thread.join(seconds)


class InPortions:
    """Makes environments in this process, a few at a time, and then their session."""

    def __init__(self, env_fns: Sequence[EnvFn], engine: Engine, form: Form, entropy: int | None) -> None:
        self.session: Session | None = None
        self._env_fns, self._engine, self._form, self._entropy = env_fns, engine, form, entropy
        self._made: list[FirstMade] = []

    def go_on(self) -> bool:
        """Make a few more."""
        end = perf_counter() + PORTION_SECONDS
        while len(self._made) < len(self._env_fns):
            made = FirstMade(self._env_fns[len(self._made)])
            self._made.append(made)
            made.raise_if_failed()
            if perf_counter() >= end:
                return False
        session = self.session = Session(self._made, self._engine, entropy=self._entropy)
        session.start()
        session.furnish(self._form)
        return True

    def abandon(self, seconds: float = CLOSE_SECONDS) -> None:
        """Close those that were made."""
        if self.session is not None:
            self.session.close(seconds, quietly=True)
        for each in self._made:
            each.close()
