"""The nursery: a small process from which workers are forked.

It is started once for each pool, imports what every worker needs (and the modules that factories name as their ``preload``),
and then waits for requests. It has one thread and nothing of the caller's, so forking it is safe; and what it has imported is
shared by all workers, so they are small and quick to start::

    caller ── control socket ──▶ nursery ── fork ──▶ worker 0, worker 1, ... ── whatever environments start
           ◀── pid / exit code ──

When the caller is gone it ends all of them: the workers, what they have started, and what has been left behind by who started
it, which becomes a child of the nursery.
"""

from __future__ import annotations

import errno
import gc
import importlib
import json
import os
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn

from shoal.vector.backends.descendants import (
    adopt_orphans,
    children_of,
    descendants_of,
    end_all,
    end_group,
    was_started_by,
)
from shoal.vector.backends.lifeline import untie
from shoal.vector.backends.limits import peak_bytes
from shoal.vector.backends.shared_buffer import is_portable
from shoal.vector.backends.worker import Post, serve

PATIENCE_SECONDS = 2.0


def begin(boot: dict[str, Any]) -> NoReturn:
    """Where the nursery begins, and stays until the caller closes the control socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the caller may have blocked what is needed here
    if not is_portable():
        adopt_orphans()
    for name in boot["modules"]:
        with suppress(Exception):  # whoever needs it will say what is wrong with it
            importlib.import_module(name)
    Nursery(socket.socket(fileno=boot["control_fd"])).run(boot["leash_fd"])


class Nursery:
    """Forks workers when it is asked to, and says how they end."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._workers: set[int] = set()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    def run(self, leash_fd: int) -> NoReturn:
        """Until the caller is gone."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        gc.freeze()  # what is imported stays shared: the collector will not touch it
        untie(leash_fd)  # from here on the control socket tells when the caller is gone
        while True:
            ready, _, _ = select.select([self._control.fileno(), self._wake_read], [], [])
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
                self._report_ended()
            if self._control.fileno() in ready:
                self._answer()

    def _answer(self) -> None:
        """Fork one worker, or say why not."""
        try:
            data, descriptors, flags, _ = socket.recv_fds(self._control, 4096, maxfds=8)
        except ConnectionResetError:
            data = b""
        if not data:
            self._end_everything()
        try:
            if flags & socket.MSG_CTRUNC:  # not all of them have come: this process cannot have so many
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            message: dict[str, int | None] = {"pid": self._fork(Post(**json.loads(data)), descriptors)}
        except OSError as error:
            message = {"errno": error.errno}
        for descriptor in descriptors:
            os.close(descriptor)
        self._tell(message)

    def _fork(self, post: Post, descriptors: list[int]) -> int:
        inherited: dict[str, Any] = dict(zip(post.descriptors(), descriptors, strict=True))
        pid = os.fork()
        if pid == 0:
            self._become(replace(post, **inherited))
        self._workers.add(pid)
        return pid

    def _become(self, post: Post) -> NoReturn:
        """In the forked process: keep nothing of the nursery."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            os.close(self._wake_read)
            os.close(self._wake_write)
            os.setpgid(0, 0)
            serve(post)
        finally:
            os._exit(1)

    def _report_ended(self) -> None:
        for pid, code, peak in _reaped():
            if pid in self._workers:
                self._workers.discard(pid)
                self._end_what_is_left_of(pid)
                self._tell({"ended": pid, "code": code, "peak": peak})

    def _end_what_is_left_of(self, worker: int) -> None:
        """What a worker had started, and who is in no group of its, is a child of this process now."""
        for child in children_of(os.getpid()):
            if child not in self._workers and was_started_by(child, worker):
                end_all([child, *descendants_of(child)])

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._control.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._end_everything()

    def _end_everything(self) -> NoReturn:
        """The caller is gone. Who loses its parent becomes a child of this process, and is ended in the next round."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and _has_children():
            for worker in self._workers:
                end_group(worker)
            end_all([*self._workers, *descendants_of(os.getpid())])
            time.sleep(0.002)
            self._workers.difference_update([pid for pid, _, _ in _reaped()])
        os._exit(0)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _reaped() -> list[tuple[int, int, int]]:
    """The children that have ended, how, and how much memory they have held at most."""
    found: list[tuple[int, int, int]] = []
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, os.waitstatus_to_exitcode(status), peak_bytes(usage.ru_maxrss)))
