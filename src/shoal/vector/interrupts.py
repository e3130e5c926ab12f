"""Ctrl-C, at a moment when nothing can be lost.

Python raises ``KeyboardInterrupt`` between any two instructions: also between taking a worker's reply and noting it down,
after which that reply would be waited for for ever. So while messages are sent and taken an interrupt is only noted, and is
raised a moment later: when the caller goes to sleep, or when it is done::

    with postponed:                 an interrupt is noted
        ... send, take, note ...
        with allowed:               it is raised here, and so is one that comes now
            ... sleep ...
        heed()                      and here
        ... note down ...
                                    and here

One that comes when another has not been heeded for a while is raised at once: perhaps something hangs.

This concerns the main thread alone, where Python runs handlers, and whatever handler the program has for SIGINT. It is put back
before the caller gets its results. What it costs is a microsecond for each time.
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

PATIENCE_SECONDS = 0.5

# What :mod:`signal` itself stands on is ten times as quick, because it does not make enumerations of numbers.
_set_handler: Callable[[int, Any], Any] = getattr(sys.modules.get("_signal"), "signal", signal.signal)
_get_handler: Callable[[int], Any] = getattr(sys.modules.get("_signal"), "getsignal", signal.getsignal)
_SIGINT = int(signal.SIGINT)
_this_thread = threading.get_ident


class _State:
    """Of the main thread, which alone has interrupts."""

    def __init__(self) -> None:
        self.main = threading.main_thread().ident
        self.depth = 0
        self.handler: Callable[[int, FrameType | None], Any] | None = None
        """What the program does on SIGINT, while interrupts are postponed."""
        self.noted_at: float | None = None
        self.forbidden = 0
        """How often it was said that nothing is allowed."""
        self.noting = self.note
        """Always the same object, so that it is known again."""

    def note(self, number: int, frame: FrameType | None) -> None:
        """What is done on SIGINT while interrupts are postponed."""
        now = time.monotonic()
        if self.noted_at is None:
            self.noted_at = now
        elif now - self.noted_at > PATIENCE_SECONDS:
            self.raise_noted()

    def raise_noted(self) -> None:
        """Do now what the program does on SIGINT."""
        self.noted_at = None
        (self.handler or signal.default_int_handler)(_SIGINT, inspect.currentframe())


_state = _State()


class Postponed:
    """While it lasts, interrupts are noted. May be nested."""

    def __enter__(self) -> None:
        state = _state
        if _this_thread() != state.main:
            return
        if not state.depth:
            handler, noting = _get_handler(_SIGINT), state.noting
            if handler is not noting and callable(handler):
                state.handler = handler
                state.noted_at = None
                _set_handler(_SIGINT, noting)
        state.depth += 1

    def __exit__(self, *_: object) -> None:
        state = _state
        if _this_thread() != state.main:
            return
        state.depth -= 1
        if not state.depth and state.handler is not None:
            handler, state.handler = state.handler, None
            _set_handler(_SIGINT, handler)
            if state.noted_at is not None:
                state.noted_at = None
                handler(_SIGINT, inspect.currentframe())

    def heed(self) -> None:
        """Raise what was noted."""
        state = _state
        if state.noted_at is not None and _this_thread() == state.main:
            state.raise_noted()


class Allowed:
    """While it lasts, interrupts are raised, even if they are postponed around it."""

    def __enter__(self) -> None:
        state = _state
        if state.handler is not None and _this_thread() == state.main and not state.forbidden:
            _set_handler(_SIGINT, state.handler)
            if state.noted_at is not None:
                state.raise_noted()

    def __exit__(self, *_: object) -> None:
        state = _state
        if state.handler is not None and _this_thread() == state.main:
            _set_handler(_SIGINT, state.noting)


class Forbidden:
    """While it lasts, interrupts are not allowed even where they would be: a wait in the middle of something else."""

    def __enter__(self) -> None:
        if _this_thread() == _state.main:
            _state.forbidden += 1

    def __exit__(self, *_: object) -> None:
        if _this_thread() == _state.main:
            _state.forbidden -= 1


class NotPostponed:
    """For where there is nothing to protect: an environment in the caller's own process may be interrupted at any time."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def heed(self) -> None:
        """There is nothing noted."""


Interrupts = Postponed | NotPostponed

postponed = Postponed()
allowed = Allowed()
forbidden = Forbidden()


def is_interruption(error: BaseException) -> bool:
    """Whether this is Ctrl-C, or ends the program because one of its signal handlers said so; only the main thread has these.

    An environment that raises ``SystemExit`` itself interrupts nothing: it has failed.
    """
    if isinstance(error, Exception) or _this_thread() != _state.main:
        return False
    if isinstance(error, KeyboardInterrupt):
        return True
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def _begin_anew() -> None:
    """In a forked process, where nobody waits for anything yet."""
    if _state.handler is not None:
        _set_handler(_SIGINT, _state.handler)
    _state.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
