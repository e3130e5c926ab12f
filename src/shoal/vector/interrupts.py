"""Signals, at a moment when nothing can be lost.

Python runs the handler of a signal between any two instructions of the main thread: Ctrl-C raises ``KeyboardInterrupt`` there,
and an alarm or SIGTERM whatever the program's own handler raises. Between taking a worker's reply and noting it down, that
would lose the reply, which would then be waited for for ever. So while messages are sent and taken, signals are only noted.
Their handlers run a moment later: when the caller goes to sleep, or when it is done::

    with postponed:                 a signal is noted
        ... send, take, note ...
        with allowed:               its handler runs here, and so does that of one that comes now
            ... sleep ...
        ... note down ...
                                    and here

If a signal comes while another has not been heeded for a while, the handler runs at once: perhaps something hangs.

This concerns the main thread alone, where Python runs handlers, and all handlers that the program has set in Python. They are
put back before the caller gets its results.
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

Handler = Callable[[int, FrameType | None], Any]

# What :mod:`signal` itself stands on is ten times as quick, because it does not make enumerations of numbers.
_set_handler: Callable[[int, Any], Any] = getattr(sys.modules.get("_signal"), "signal", signal.signal)
_get_handler: Callable[[int], Any] = getattr(sys.modules.get("_signal"), "getsignal", signal.getsignal)
_this_thread = threading.get_ident

_NAMES = ("INT", "TERM", "ALRM", "HUP", "USR1", "USR2", "QUIT", "VTALRM", "PROF", "XCPU", "CHLD", "WINCH")
_WATCHED = [int(getattr(signal, f"SIG{name}")) for name in _NAMES if hasattr(signal, f"SIG{name}")]
"""Signals for which programs have handlers. To look at all sixty would take longer than some steps."""


class _State:
    """Of the main thread, which alone runs handlers."""

    def __init__(self) -> None:
        self.main = threading.main_thread().ident
        self.depth = 0
        self.handlers: dict[int, Handler] = {}
        """What the program does on which signal, while signals are postponed."""
        self.noted: list[int] = []
        self.noted_at = 0.0
        """When the first of these came."""
        self.forbidden = 0
        """How often it was said that nothing is allowed."""
        self.noting = self.note
        """Always the same object, so that it is known again."""
        self._last_found: list[Any] = []
        self._last_handlers: dict[int, Handler] = {}

    def note(self, number: int, frame: FrameType | None) -> None:
        """What is done on a signal while signals are postponed."""
        now = time.monotonic()
        if not self.noted:
            self.noted_at = now
        elif now - self.noted_at > PATIENCE_SECONDS:
            self.noted.append(number)
            self.heed()
            return
        if number not in self.noted:
            self.noted.append(number)

    def take_over(self) -> None:
        """Let signals be noted from now on."""
        found = [*map(_get_handler, _WATCHED)]
        if found != self._last_found:  # hardly ever
            both = zip(_WATCHED, found, strict=True)
            self._last_handlers = {number: it for number, it in both if callable(it) and it is not self.noting}
            self._last_found = found
        self.handlers = self._last_handlers
        noting = self.noting
        try:
            for number in self.handlers:
                _set_handler(number, noting)
        except BaseException:  # raised by a handler that was not taken over yet
            self.give_back()
            raise

    def give_back(self) -> None:
        """Let the program's handlers run again when a signal comes."""
        try:
            for number, handler in self.handlers.items():
                _set_handler(number, handler)
        except BaseException:  # raised by a handler that was given back already
            self.give_back()
            raise

    def heed(self) -> None:
        """Run the handlers of what was noted, each of them even if another one raises."""
        while self.noted:
            number = self.noted.pop(0)
            try:
                self.handlers.get(number, signal.default_int_handler)(number, inspect.currentframe())
            finally:
                if self.noted:
                    self.heed()


_state = _State()


class Postponed:
    """While it lasts, signals are noted. May be nested."""

    def __enter__(self) -> None:
        state = _state
        if _this_thread() != state.main:
            return
        if not state.depth:
            state.take_over()
        state.depth += 1

    def __exit__(self, *_: object) -> None:
        state = _state
        if _this_thread() != state.main:
            return
        state.depth -= 1
        if not state.depth:
            state.give_back()
            if state.noted:
                state.heed()


class Allowed:
    """While it lasts, handlers run, even if signals are postponed around it."""

    def __enter__(self) -> None:
        state = _state
        if state.depth and _this_thread() == state.main and not state.forbidden:
            try:
                state.give_back()
                if state.noted:
                    state.heed()
            except BaseException:
                state.take_over()
                raise

    def __exit__(self, *_: object) -> None:
        state = _state
        if state.depth and _this_thread() == state.main and not state.forbidden:
            state.take_over()


class Forbidden:
    """While it lasts, handlers do not run even where they would be allowed to: a wait in the middle of something else."""

    def __enter__(self) -> None:
        if _this_thread() == _state.main:
            _state.forbidden += 1

    def __exit__(self, *_: object) -> None:
        if _this_thread() == _state.main:
            _state.forbidden -= 1


class NotPostponed:
    """For where there is nothing to protect: an environment in the caller's own thread may be interrupted at any time."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


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
    """In a forked process, where nothing is waited for yet."""
    if _state.depth:
        _state.give_back()
    _state.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
