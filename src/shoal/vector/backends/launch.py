"""Three ways to start a worker process.

``spawn``       a new interpreter for each worker. Clean, and about as slow as importing NumPy and Gymnasium.
``forkserver``  one new interpreter, the *nursery*, from which every worker is forked. As clean as ``spawn``, because the
                nursery has one thread and nothing of the caller's in it; quicker and smaller, because all workers share
                what it has imported. The default.
``fork``        a copy of the caller. Quickest, but a copy of a process with threads, CUDA or an open display is broken
                in ways that show up later.

None of them imports the caller's ``__main__``: factories travel by value, so a script needs no
``if __name__ == "__main__"``. Every worker leads a process group of its own: a Ctrl-C in the terminal does not reach it,
and ending the group ends whatever the environments have started.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol

from shoal.vector.backends.base import StartMethod
from shoal.vector.backends.fork_guard import disown, own
from shoal.vector.backends.shared_buffer import is_portable
from shoal.vector.backends.worker import Post, serve
from shoal.vector.errors import WorkerError

_ONE_THREAD = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
)  # fmt: skip
_BOOT = (
    "import json, sys; boot = json.loads(sys.argv[1]); sys.path[:] = boot['path']; sys.argv[:] = boot['argv']; "
    "from shoal.vector.backends import {module}; {module}.{entry}(boot)"
)


def worker_environment() -> dict[str, str]:
    """The environment variables of a worker, which must be there before NumPy is imported."""
    environment = dict(os.environ)
    # One computing thread per worker: the workers already use every core.
    environment.update(dict.fromkeys(_ONE_THREAD, "1"))
    environment.setdefault("TOKENIZERS_PARALLELISM", "false")
    # All workers, and later replacements, iterate over sets of strings in the same order.
    environment.setdefault("PYTHONHASHSEED", "0")
    return environment


Ending = tuple[bool, int | None]
"""Whether a process has ended, and its exit code where that is known; negative for a signal."""

_RUNS: Ending = (False, None)


class Process:
    """A worker process, however it was started."""

    def __init__(self, pid: int, ask: Callable[[], Ending]) -> None:
        self.pid = pid
        self.exit_code: int | None = None
        self.ended = False
        self._ask = ask
        self.sentinel = -1
        """A descriptor that becomes readable when the process ends, where there is such a thing."""
        if not is_portable():
            try:
                self.sentinel = own(os.pidfd_open(pid))
            except ProcessLookupError:
                pass  # it has ended already, which check() will find out

    def check(self) -> bool:
        """Whether it has ended."""
        if not self.ended:
            self.ended, self.exit_code = self._ask()
        return self.ended

    def wait(self, deadline: float) -> bool:
        """Wait until it has ended or the deadline (of the monotonic clock) has passed; returns whether it has ended."""
        while not self.check():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.002)
        return True

    def kill(self) -> None:
        """End it and everything it has started."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # gone already, or so young that it does not lead its group yet
        if not self.ended:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def forget(self) -> None:
        """Give up the descriptor."""
        if self.sentinel >= 0:
            disown(self.sentinel)
            os.close(self.sentinel)
            self.sentinel = -1


class Launcher(Protocol):
    """Starts workers, one at a time."""

    def launch(self, post: Post) -> Process:
        """Start one worker. The caller closes ``post.channel_fd`` afterwards."""

    def close(self) -> None:
        """Give up what the launcher itself holds, after its workers have ended."""


def make_launcher(start_method: StartMethod) -> Launcher:
    """The launcher of that name."""
    kinds: dict[str, Callable[[], Launcher]] = {
        "spawn": SpawnLauncher,
        "fork": ForkLauncher,
        "forkserver": NurseryLauncher,
    }
    return kinds[start_method]()


def _start_python(module: str, entry: str, boot: dict[str, object], pass_fds: list[int]) -> subprocess.Popen[bytes]:
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    boot = {**boot, "path": sys.path, "argv": sys.argv}
    return subprocess.Popen(
        [sys.executable, *flags, "-c", _BOOT.format(module=module, entry=entry), json.dumps(boot)],
        stdin=subprocess.DEVNULL,
        env=worker_environment(),
        pass_fds=[fd for fd in pass_fds if fd >= 0],
        process_group=0,
    )


class SpawnLauncher:
    """A new interpreter for each worker."""

    def launch(self, post: Post) -> Process:
        """Start one worker."""
        boot: dict[str, object] = {"post": asdict(post)}
        popen = _start_python("launch", "spawned", boot, [post.channel_fd, post.board_fd, post.arena_fd])
        return Process(popen.pid, lambda: (popen.poll() is not None, popen.returncode))

    def close(self) -> None:
        """Nothing is held."""


def spawned(boot: dict[str, dict[str, Any]]) -> None:
    """Where a spawned worker begins."""
    serve(Post(**boot["post"]))


class ForkLauncher:
    """A copy of this process for each worker."""

    def launch(self, post: Post) -> Process:
        """Start one worker."""
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            try:
                os.setpgid(0, 0)
                serve(post)
            finally:
                os._exit(1)
        _lead_own_group(pid)
        return Process(pid, lambda: _reap(pid))

    def close(self) -> None:
        """Nothing is held."""


def _lead_own_group(pid: int) -> None:
    # Parent and child both do this, so that it is true for either from its first moment on.
    try:
        os.setpgid(pid, pid)
    except (PermissionError, ProcessLookupError):
        pass


def _reap(pid: int) -> Ending:
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return True, None  # somebody else has waited for all children
    return (True, os.waitstatus_to_exitcode(status)) if done else _RUNS


class NurseryLauncher:
    """Workers forked from a process that has nothing but imports in it.

    The nursery answers each request with a pid, and reports every exit code, over one socket.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        own(ours.fileno())
        self._control = ours
        self._unread = b""
        self._exits: dict[int, int] = {}
        self._popen = _start_python("nursery", "begin", {"control_fd": theirs.fileno()}, [theirs.fileno()])
        theirs.close()

    def launch(self, post: Post) -> Process:
        """Ask for one worker."""
        descriptors = [fd for fd in (post.channel_fd, post.board_fd, post.arena_fd) if fd >= 0]
        try:
            socket.send_fds(self._control, [json.dumps(asdict(post)).encode() + b"\n"], descriptors)
            while "pid" not in (message := self._read(block=True)):
                self._note(message)
        except (OSError, EOFError):
            self._popen.kill()
            raise WorkerError(
                "the process that starts workers ended before it could start one "
                f"(exit code {self._popen.wait()}); what it printed says why. "
                'start_method="spawn" does without it.'
            ) from None
        pid = message["pid"]
        return Process(pid, lambda: self._ending(pid))

    def _ending(self, pid: int) -> Ending:
        try:
            while message := self._read(block=False):
                self._note(message)
        except (OSError, EOFError):
            # Nobody is left who could tell; whether the process is there is all that can be known.
            if pid not in self._exits and not _exists(pid):
                return True, None
        return (True, self._exits[pid]) if pid in self._exits else _RUNS

    def _note(self, message: dict[str, int]) -> None:
        self._exits[message["ended"]] = message["code"]

    def _read(self, *, block: bool) -> dict[str, int]:
        while b"\n" not in self._unread:
            try:
                data = self._control.recv(4096, 0 if block else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return {}
            if not data:
                raise EOFError
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        message: dict[str, int] = json.loads(line)
        return message

    def close(self) -> None:
        """End the nursery."""
        if self._control.fileno() >= 0:
            disown(self._control.fileno())
            self._control.close()
        try:
            self._popen.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
