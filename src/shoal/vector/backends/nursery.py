"""The nursery: a small process from which workers are forked.

It is started once for each pool, imports what every worker needs, and then waits for requests. It has one thread and
nothing of the caller's, so forking it is safe; and what it has imported is shared by all workers, so they are small and
quick to start::

    caller ── control socket ──▶ nursery ── fork ──▶ worker 0, worker 1, ...
           ◀── pid / exit code ──
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
from dataclasses import replace
from typing import Any

from shoal.vector.backends.worker import Post, serve


def begin(boot: dict[str, int]) -> None:
    """Where the nursery begins, and stays until the caller closes the control socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=boot["control_fd"])
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    gc.freeze()  # what is imported stays shared: the collector will not touch it
    while True:
        ready, _, _ = select.select([control.fileno(), wake_read], [], [])
        if wake_read in ready:
            os.read(wake_read, 4096)
            _report_ended(control)
        if control.fileno() in ready and not _answer(control, (wake_read, wake_write)):
            os._exit(0)


def _answer(control: socket.socket, nursery_only: tuple[int, int]) -> bool:
    """Fork one worker; returns whether the caller is still there."""
    data, descriptors, _, _ = socket.recv_fds(control, 4096, maxfds=3)
    if not data:
        return False
    post = Post(**json.loads(data))
    post = replace(
        post,
        channel_fd=descriptors[0],
        board_fd=descriptors[1],
        arena_fd=descriptors[2] if len(descriptors) > 2 else -1,
    )
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control.close()
            for descriptor in nursery_only:
                os.close(descriptor)
            os.setpgid(0, 0)
            serve(post)
        finally:
            os._exit(1)
    for descriptor in descriptors:
        os.close(descriptor)
    _tell(control, {"pid": pid})
    return True


def _report_ended(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _tell(control, {"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _tell(control: socket.socket, message: dict[str, Any]) -> None:
    try:
        control.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        os._exit(0)  # the caller is gone
