"""The lifeline: workers end with their caller, however it ends.

The caller holds one end of a pipe and never writes to it. When the caller is gone, even by ``kill -9``, the pipe breaks, and
the kernel sends SIGKILL to every worker and whatever it has started. No code of a worker's has to run for that, so it also
works while an environment is busy or C code holds the interpreter's lock; and the caller sets it up for processes that have
yet to import Python's modules, so it works from their first moment on.

Only Linux can send a chosen signal when a pipe breaks. Elsewhere a thread of the worker waits for it, which does not work while
the interpreter's lock is held.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import threading

from shoal.vector.backends.descendants import end_group
from shoal.vector.backends.fork_guard import disown, own
from shoal.vector.backends.shared_buffer import is_portable


class Lifeline:
    """The caller's end."""

    def __init__(self) -> None:
        self.fd, self._held = os.pipe()
        own(self._held)  # a process that is forked from the caller must not hold it

    def close(self) -> None:
        """Let go of both ends."""
        if self._held >= 0:
            disown(self._held)
            os.close(self._held)
            os.close(self.fd)
            self._held = -1


class Leash:
    """What a process inherits from the caller so that the kernel can end it before it has run any code of ours.

    It has an opening of the pipe of its own: what is set here would hold for all who have inherited the same one.
    """

    def __init__(self, lifeline_fd: int) -> None:
        self.fd = -1
        if not _kernel_can_end():
            return
        try:
            self.fd = _reopened(lifeline_fd)
        except OSError:
            pass  # no /proc: it will hold on by itself

    @property
    def fds(self) -> list[int]:
        """What is to be inherited."""
        return [self.fd] if self.fd >= 0 else []

    def tie(self, pid: int) -> None:
        """Tie it to that process, which has inherited it and leads a group, and let go of it here."""
        if self.fd >= 0:
            try:
                _end_when_broken(self.fd, -pid)
            except OSError:
                pass  # it has ended already
        self.drop()

    def drop(self) -> None:
        """Let go of it here."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def untie(leash_fd: int) -> None:
    """Let this process, which has inherited a leash, end by itself from now on."""
    if leash_fd >= 0:
        fcntl.fcntl(leash_fd, fcntl.F_SETFL, fcntl.fcntl(leash_fd, fcntl.F_GETFL) & ~os.O_ASYNC)
        os.close(leash_fd)


def hold_on(fd: int) -> None:
    """Let this process, which leads a process group, and that group end when the caller does. The pipe stays open."""
    pid = os.getpid()
    try:
        # Once for the group and once for this process, which an environment may move to another group.
        for owner in (-pid, pid) if _kernel_can_end() else ():
            _end_when_broken(_reopened(fd), owner)
        needs_thread = not _kernel_can_end()
    except OSError:
        needs_thread = True  # no /proc
    if is_broken(fd, 0):
        end_together(pid)
    if needs_thread:
        threading.Thread(target=_watch, args=(fd, pid), name="shoal-lifeline", daemon=True).start()


def is_broken(fd: int, seconds: float | None = 0) -> bool:
    """Whether the caller is gone, or will be within so many seconds. Not if an environment has closed the descriptor."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(event != select.POLLNVAL for _, event in poll.poll(None if seconds is None else seconds * 1000))


def end_together(pid: int) -> None:
    """End this process and the group that it leads."""
    end_group(pid)
    os.kill(pid, signal.SIGKILL)


def _kernel_can_end() -> bool:
    return not is_portable() and hasattr(fcntl, "F_SETSIG")


def _reopened(fd: int) -> int:
    return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)


def _end_when_broken(fd: int, owner: int) -> None:
    """Have the kernel send SIGKILL to a process, or to a group (negative), when the pipe breaks."""
    fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(fd, fcntl.F_SETOWN, owner)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)


def _watch(fd: int, pid: int) -> None:
    is_broken(fd, None)
    end_together(pid)
