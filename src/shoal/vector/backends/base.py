"""What a backend is: a way for commands to reach runners and for their replies to come back.

A backend is small on purpose. It knows nothing of episodes, spaces or infos; it starts runners, hands them commands, and
says what came back and who died. Everything friendly lives above it, once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from shoal.vector.halves import Half
from shoal.vector.layout import Arena
from shoal.vector.messages import Attachment, Command, Event, Outcome

StartMethod = Literal["spawn", "forkserver", "fork"]
START_METHODS: tuple[StartMethod, ...] = ("spawn", "forkserver", "fork")


def default_start_method() -> StartMethod:
    """``forkserver``, except on macOS, whose system libraries do not survive being forked."""
    return "spawn" if sys.platform == "darwin" else "forkserver"


Addressed = tuple[int, Command]
"""A worker, and what it is asked to do."""


class RealTime:
    """The time that everybody has."""

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    steps_at_once = False
    has_sheet = False
    """Whether what environments tell alike in every step can be read in the arena."""

    def is_here(self, worker: int) -> bool:
        """Whether this worker is the caller's own process, where that is not so of all."""
        return False

    def order_step(self, sequence: int) -> None:
        """Only asked of who steps at once."""
        raise NotImplementedError

    def finish_step(self, sequence: int) -> Outcome | None:
        """Only asked of who steps at once."""
        raise NotImplementedError

    def order_half(self, half: Half) -> None:
        """Only asked of who steps at once."""
        raise NotImplementedError

    def finish_half(self, half: Half) -> Outcome | None:
        """Not here; it may have been ordered elsewhere, before."""
        return None


class InProcess(RealTime):
    """What a backend cannot do whose runners are in the caller's own process."""

    def memory(self, worker: int) -> int | None:
        """Not known: it is the caller's."""
        return None

    def stack(self, worker: int) -> str:
        """Not known: a debugger can tell."""
        return ""

    def start_spare(self) -> bool:
        """There is none in the caller's own process."""
        return False

    def end_spare(self) -> None:
        """There is none."""

    def replace(self, worker: int) -> None:
        """Nobody dies here without the caller."""


class Backend(Protocol):
    """Commands out, replies and deaths in."""

    num_workers: int

    def clock(self) -> float:
        """What time it is, in seconds; only differences mean anything. A simulated backend has its own."""

    def sleep(self, seconds: float, /) -> None:
        """Let so much of that time pass."""

    @property
    def name(self) -> str:
        """As ``backend=`` calls it."""

    @property
    def in_process(self) -> bool:
        """Whether the environments live in the caller's process, so that they can be touched, and cannot be ended."""

    def start(self) -> None:
        """Start the runners. Nothing is constructed yet."""

    def attach(self, attachment: Attachment, sequence: int) -> Arena:
        """Allocate the arena, post ``ATTACH`` to every runner, and return the caller's view of it."""

    def post(self, commands: Sequence[Addressed]) -> None:
        """Hand commands to runners, all or none of them. Returns at once."""

    def poll(self, timeout: float | None, arrivals: int = 1) -> list[Event]:
        """Wait until something happened, or ``timeout`` seconds; ``None`` waits for ever.

        So many ``arrivals`` are waited for: a backend that can sleep until then may do so.
        """

    @property
    def steps_at_once(self) -> bool:
        """Whether the ordinary step of all environments has a shorter way now than ``post`` and ``poll``."""

    def order_step(self, sequence: int) -> None:
        """As ``post``, on that way, for a command with this number."""

    def finish_step(self, sequence: int) -> Outcome | None:
        """Wait a moment; returns what came of that step if all have finished it without a message. If not, ``poll`` tells."""

    def order_half(self, half: Half) -> None:
        """As ``post`` on that way, for a step of one half of all environments."""

    def finish_half(self, half: Half) -> Outcome | None:
        """As ``finish_step``, for the half that was ordered; if there is none, ``poll`` tells who has arrived."""

    def doorbell(self) -> AbstractContextManager[int | None]:
        """While it is open: a descriptor that can be read once ``poll`` has something, or ``None`` where there is none."""

    def progress(self, worker: int) -> int | None:
        """The environment this runner is working on right now, where that can be told."""

    def is_here(self, worker: int) -> bool:
        """Whether this runner is in the caller's own process, where others are not."""

    def kill(self, worker: int) -> None:
        """End a runner at once, where that is possible."""

    def memory(self, worker: int) -> int | None:
        """How many bytes of memory a runner's process takes, where that can be told."""

    def stack(self, worker: int) -> str:
        """Where a runner is at this moment, as a Python stack; empty where that cannot be told."""

    def replace(self, worker: int) -> None:
        """Start a runner in the place of one that has died, where that is possible."""

    def start_spare(self) -> bool:
        """Have one more runner, with the number ``num_workers``, to try something with; whether there is one, and free."""

    def end_spare(self) -> None:
        """Give it up."""

    def close(self, grace: float) -> list[str]:
        """Close all environments and end all runners, within about ``grace`` seconds; returns who had to be left or killed."""
