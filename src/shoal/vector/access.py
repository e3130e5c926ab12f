"""Who uses a pool at this moment, and how it is closed in the middle of that.

Every call of a face runs inside its pool's access. While it does, signals are postponed. ``close()`` may come from another
thread, or from a signal handler in the middle of a wait: it shuts the access, lets the threads that are inside come out with
:class:`~shoal.vector.errors.Closed`, and only then takes away what they use::

    thread 1    with access: ── wait ── is_shut? ──▶ Closed
    thread 2             close(): shut ──────── all are out ──▶ workers end, memory is given back
"""

from __future__ import annotations

import threading
import time
from typing import NoReturn

from shoal.vector.errors import Closed
from shoal.vector.interrupts import Interrupts

_this_thread = threading.get_ident
LOOK_SECONDS = 0.001


class Access:
    """A context for everything that uses the pool. May be nested."""

    __slots__ = ("_inside", "_interrupts", "is_shut")

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._inside: list[int] = []
        """The threads that are inside, each as often as it has entered."""
        self.is_shut = False

    def __enter__(self) -> None:
        self._interrupts.__enter__()
        self._inside.append(_this_thread())
        # Looked at after the entry is known: the thread that closes looks at both in the other order.
        if self.is_shut:
            self.__exit__()
            self.refuse()

    def __exit__(self, *_: object) -> None:
        self._inside.remove(_this_thread())
        self._interrupts.__exit__()

    def refuse(self) -> NoReturn:
        """Say that it is shut."""
        raise Closed(
            "The environments were closed: close() was called, perhaps in another thread, or the program is ending."
        )

    @property
    def is_used_by_others(self) -> bool:
        """Whether another thread is inside."""
        me = _this_thread()
        return any(thread != me for thread in self._inside)

    def shut(self, seconds: float) -> None:
        """Let nobody in any more, and wait for so long at most until all other threads are out."""
        self.is_shut = True
        end = time.monotonic() + seconds
        while self.is_used_by_others and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
