"""Three ways to start a worker process.

``spawn``       a new interpreter for each worker. Clean, and about as slow as importing NumPy and Gymnasium.
``forkserver``  one new interpreter, the *nursery*, from which every worker is forked. As clean as ``spawn``, because the
                nursery has one thread and nothing of the caller's in it; quicker and smaller, because all workers share
                what it has imported. The default.
``fork``        a copy of the caller. Quickest, but a copy of a process with threads, CUDA or an open display is broken
                in ways that show up later.

None of them imports the caller's ``__main__``: factories travel by value, or are there already in a forked copy of the
caller, so a script needs no ``if __name__ == "__main__"``. Every worker leads a process group of its own: a Ctrl-C in the
terminal does not reach it, and ending the group ends whatever the environments have started. What has left the group is ended
with a worker that is killed from here, by a worker that is closed, and with the nursery, unless that is killed itself.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

from shoal.vector.backends.base import StartMethod
from shoal.vector.backends.descendants import descendants_of, end_all, end_group
from shoal.vector.backends.fork_guard import disown, own
from shoal.vector.backends.lifeline import Leash, Lifeline, is_broken
from shoal.vector.backends.limits import check_descriptors, own_peak_bytes, peak_bytes, why_no_descriptor
from shoal.vector.backends.reaping import see_off
from shoal.vector.backends.shared_buffer import is_portable
from shoal.vector.backends.worker import Post, serve
from shoal.vector.errors import OutOfDescriptors, WorkerError

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 3.0
START_SECONDS = 30.0  # for a nursery that has yet to import what workers need, on a busy machine
ANSWER_SECONDS = 10.0  # for one that only has to fork
REPORT_SECONDS = 2.5  # for one that has to say how a worker ended that is gone
NURSERIES = 9  # that may end one after the other without having started a worker
SILENT_NURSERIES = 3  # that may be killed one after the other because they did not answer
FORK_DESCRIPTORS = 16  # that a forked worker needs in addition to those it has from the caller
FLAGS, EXITING = 6, 4
"""Where /proc/<pid>/stat has flags, counted from the state, and that of a process that is about to be gone."""
_ONE_THREAD = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
)  # fmt: skip
# The first that a new interpreter does is to look whether its caller is still there: importing all of Shoal takes a while.
_BOOT = """
import json, os, select, sys
boot = json.loads(sys.argv[1])
poll = select.poll()
boot["leash_fd"] < 0 or poll.register(boot["leash_fd"], select.POLLIN)
poll.poll(0) and os._exit(1)
sys.path[:] = boot["path"]
sys.argv[:] = boot["argv"]
from shoal.vector.backends import {module}
{module}.{entry}(boot)
"""


def worker_environment() -> dict[str, str]:
    """The environment variables of a worker, which must be there before NumPy is imported."""
    environment = dict(os.environ)
    # One computing thread per worker: the workers already use every core.
    environment.update(dict.fromkeys(_ONE_THREAD, "1"))
    environment.setdefault("TOKENIZERS_PARALLELISM", "false")
    # All workers, and later replacements, iterate over sets of strings in the same order.
    environment.setdefault("PYTHONHASHSEED", "0")
    return environment


class Ending(NamedTuple):
    """Whether a process has ended, and how."""

    has_ended: bool
    exit_code: int | None = None
    """Negative for a signal; ``None`` where nobody could tell."""
    peak_memory: int | None = None
    """How many bytes it has held at most, where that is known."""


_RUNS = Ending(False)


class Process:
    """A worker process, however it was started."""

    def __init__(self, pid: int, ask: Callable[[Process], Ending], *, is_child: bool = True) -> None:
        self.pid = pid
        self.is_child = is_child
        """Whether it is this process that has to ask how it ended."""
        self.exit_code: int | None = None
        self.peak_memory: int | None = None
        self.ended = False
        self._ask = ask
        self.sentinel = -1
        """A descriptor that becomes readable when the process ends, where there is such a thing."""
        if not is_portable():
            try:
                self.sentinel = own(os.pidfd_open(pid))
            except ProcessLookupError:
                pass  # it has ended already, which check() will find out
            except BaseException:
                self.kill()  # nobody else knows of it
                see_off(self, PATIENCE_SECONDS)
                raise

    def check(self) -> bool:
        """Whether it has ended."""
        if not self.ended:
            self.ended, self.exit_code, self.peak_memory = self._ask(self)
            if self.ended and self.exit_code is None and not self.is_gone():
                self.ended = False  # who was to tell how it ends is gone, but it is not
        return self.ended

    def is_gone(self) -> bool:
        """Whether the process is there no longer, even if it is not known how it ended."""
        if self.sentinel >= 0:
            return is_broken(self.sentinel)
        return not _exists(self.pid)

    def is_ending(self) -> bool:
        """Whether it is about to be gone, where the system can tell."""
        stat = _stat(self.pid)
        return stat is None or stat[0] == "Z" or bool(int(stat[FLAGS]) & EXITING)

    def wait(self, deadline: float) -> bool:
        """Wait until it has ended or the deadline (of the monotonic clock) has passed; returns whether it has ended."""
        while not self.check():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.002)
        return True

    def kill(self) -> None:
        """End it and everything it has started."""
        # What has left its group can only be found as long as the process is there.
        found = [] if self.ended or self.is_gone() else [self.pid, *descendants_of(self.pid)]
        end_group(self.pid)
        end_all(found)

    def forget(self) -> None:
        """Give up the descriptor."""
        if self.sentinel >= 0:
            disown(self.sentinel)
            os.close(self.sentinel)
            self.sentinel = -1


class Launcher(Protocol):
    """Starts workers, one at a time."""

    def launch(self, post: Post) -> Process:
        """Start one worker, or raise ``OSError`` or :class:`WorkerError`, and leave nothing of it.

        The caller closes ``post.channel_fd`` afterwards. After :class:`NurseryGone` another socket is needed: perhaps a worker
        that is about to end still holds the other end of this one.
        """

    def close(self) -> None:
        """Give up what the launcher itself holds, after its workers have ended."""


def make_launcher(
    start_method: StartMethod, start_seconds: float = START_SECONDS, modules: Sequence[str] = ()
) -> Launcher:
    """The launcher of that name.

    ``start_seconds`` is how long a nursery may take to start; ``modules``, what it imports, so that workers share it.
    """
    kinds: dict[str, Callable[[], Launcher]] = {
        "spawn": SpawnLauncher,
        "fork": ForkLauncher,
        "forkserver": lambda: NurseryLauncher(start_seconds, modules),
    }
    return kinds[start_method]()


def _start_python(
    module: str, entry: str, boot: dict[str, object], pass_fds: list[int], lifeline_fd: int
) -> subprocess.Popen[bytes]:
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    leash = Leash(lifeline_fd)
    try:
        boot = {**boot, "path": sys.path, "argv": sys.argv, "leash_fd": leash.fd}
        popen = subprocess.Popen(
            [sys.executable, *flags, "-c", _BOOT.format(module=module, entry=entry), json.dumps(boot)],
            stdin=subprocess.DEVNULL,
            env=worker_environment(),
            pass_fds=[*pass_fds, *leash.fds],
            process_group=0,
        )
        leash.tie(popen.pid)
    finally:
        leash.drop()
    return popen


class SpawnLauncher:
    """A new interpreter for each worker."""

    def launch(self, post: Post) -> Process:
        """Start one worker."""
        boot: dict[str, object] = {"post": asdict(post)}
        inherited = own_peak_bytes()
        popen = _start_python("launch", "spawned", boot, list(post.descriptors().values()), post.lifeline_fd)

        def ask(_: Process) -> Ending:
            # Not Popen, which says 0 where somebody else has waited for the process.
            ending = _reap(popen.pid)
            if ending.has_ended:
                popen.returncode = ending.exit_code or 0  # so that Popen does not ask
            if ending.peak_memory is not None and ending.peak_memory <= inherited:
                # Linux counts what this process held when it became that one: it says nothing about the worker.
                return ending._replace(peak_memory=None)
            return ending

        return Process(popen.pid, ask)

    def close(self) -> None:
        """Nothing is held."""


def spawned(boot: dict[str, Any]) -> NoReturn:
    """Where a spawned worker begins."""
    serve(Post(**boot["post"]))


class ForkLauncher:
    """A copy of this process for each worker."""

    def launch(self, post: Post) -> Process:
        """Start one worker."""
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        check_descriptors(FORK_DESCRIPTORS)
        forked: list[Process] = []
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        try:
            try:
                # A handler of the caller's that raises would take the copy out of here, to run on in the caller's code.
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
                forked.append(self._fork(post))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except BaseException:
            for process in forked:  # of which nobody would know
                process.kill()
                see_off(process, PATIENCE_SECONDS)
            raise
        return forked[0]

    def _fork(self, post: Post) -> Process:
        pid = os.fork()
        if pid == 0:
            try:
                os.setpgid(0, 0)
                serve(post)
            finally:
                os._exit(1)
        _lead_own_group(pid)
        return Process(pid, lambda _: _reap(pid))

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
        done, status, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return Ending(True)  # somebody else has waited for all children
    return Ending(True, os.waitstatus_to_exitcode(status), peak_bytes(usage.ru_maxrss)) if done else _RUNS


class NurseryGone(WorkerError):
    """The nursery has ended, or was killed because it did not answer. Another one may be asked."""


class NurseryLauncher:
    """Workers forked from a process that has nothing but imports in it.

    If that process is gone or does not answer, its workers go on, and the next one is forked from a new nursery.
    """

    def __init__(self, start_seconds: float, modules: Sequence[str] = ()) -> None:
        self._start_seconds, self._modules = start_seconds, modules
        self._nurseries: list[_Nursery] = []
        """The last one is in use; workers of the others may still be there."""
        self._num_lost = self._num_silent = 0
        """Nurseries in a row that have started nobody, and those of them that did not answer."""

    def launch(self, post: Post) -> Process:
        """Ask for one worker."""
        nursery = self._usable()
        try:
            process = nursery.launch(post, self._start_seconds if nursery.is_new else ANSWER_SECONDS)
        except NurseryGone:
            nursery.close()  # then it is known how it has ended
            self._num_lost += 1
            self._num_silent += nursery.is_silent
            if self._num_lost < NURSERIES and self._num_silent < SILENT_NURSERIES:
                raise
            count, self._num_lost, self._num_silent = self._num_lost, 0, 0
            how = "" if nursery.is_silent else f" (exit code {nursery.exit_code}); what it printed says why"
            raise WorkerError(
                f"the fork server, which starts workers, {nursery.why_lost}{how}. It was tried {count} times. "
                'start_method="spawn" does without it.'
            ) from None
        self._num_lost = self._num_silent = 0
        return process

    def _usable(self) -> _Nursery:
        last = self._nurseries[-1] if self._nurseries else None
        if last is None or last.is_lost:
            if last is not None:
                last.close()
                logger.warning(
                    "the fork server (pid %d), which starts workers, %s. It is replaced. Workers that it has started go on, "
                    "but how they will end cannot be known.", last.pid, last.why_lost,
                )  # fmt: skip
                time.sleep(0.02 * self._num_lost)  # what has ended it may be over soon
            self._nurseries.append(_Nursery(self._modules))
        return self._nurseries[-1]

    def close(self) -> None:
        """End the nursery."""
        for nursery in self._nurseries:
            nursery.close()


class _Nursery:
    """The caller's end of a nursery, which answers each request with a pid, and reports every exit code, over one socket."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self._lifeline = Lifeline()
        self._unread = b""
        self._endings: dict[int, Ending] = {}
        self._owes_since: float | None = None
        """Since when it has been known that it has to report an end."""
        self.is_new = True
        """Whether it has never answered."""
        self.is_silent = False
        """Whether it was killed because it said nothing."""
        self.why_lost = ""
        """What has become of it, if it cannot be used any more."""
        with ExitStack() as undo:
            undo.callback(self._lifeline.close)
            self._control, theirs = socket.socketpair()
            own(self._control.fileno())
            undo.callback(self._let_go)
            with theirs:
                boot: dict[str, object] = {"control_fd": theirs.fileno(), "modules": modules}
                self._popen = _start_python("nursery", "begin", boot, [theirs.fileno()], self._lifeline.fd)
            undo.pop_all()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._popen.pid

    @property
    def is_lost(self) -> bool:
        """Whether it has ended, or was killed."""
        return bool(self.why_lost)

    @property
    def exit_code(self) -> int | None:
        """How it has ended."""
        return self._popen.returncode

    def launch(self, post: Post, seconds: float) -> Process:
        """Ask for one worker, and wait for so long at most until it is there."""
        descriptors = list(post.descriptors().values())
        try:
            socket.send_fds(self._control, [json.dumps(asdict(post)).encode() + b"\n"], descriptors)
            deadline = time.monotonic() + seconds
            while "ended" in (message := self._read(deadline)):
                self._note(message)
        except (BrokenPipeError, ConnectionResetError, EOFError):
            self.why_lost = "ended before it could start one" if self.is_new else "has ended"
            raise NurseryGone(self.why_lost) from None
        except TimeoutError:
            self._kill(f"did not answer within {seconds:g} s and was killed")
            raise NurseryGone(self.why_lost) from None
        except BaseException:
            self._kill("was interrupted")  # or its answer would be taken for the answer to the next request
            raise
        self.is_new = False
        if "errno" in message:
            error = OSError(message["errno"], os.strerror(message["errno"]))
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise OutOfDescriptors(why_no_descriptor(error, self.pid))
            raise error
        return Process(message["pid"], self._ending, is_child=False)

    def _ending(self, process: Process) -> Ending:
        self._take_reports()
        if process.pid in self._endings or self.is_lost:
            return self._endings.get(process.pid, Ending(True))  # or nobody is left who could tell more
        if process.is_gone():
            now = time.monotonic()
            if self._owes_since is None:
                self._owes_since = now
            elif now - self._owes_since > REPORT_SECONDS:
                self._kill(f"did not say within {REPORT_SECONDS:g} s how a worker has ended and was killed")
        return _RUNS

    def _take_reports(self) -> None:
        try:
            while message := self._read():
                self._note(message)
        except (OSError, EOFError):
            self.why_lost = self.why_lost or "has ended"

    def _note(self, message: dict[str, int]) -> None:
        self._owes_since = None
        self._endings[message["ended"]] = Ending(True, message["code"], message["peak"])

    def _read(self, deadline: float | None = None) -> dict[str, int]:
        """The next message. Without a deadline nothing is waited for, and there may be none."""
        while b"\n" not in self._unread:
            if deadline is not None and not _is_readable(self._control, max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            try:
                data = self._control.recv(4096, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return {}
            if not data:
                raise EOFError
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        message: dict[str, int] = json.loads(line)
        return message

    def _kill(self, why: str) -> None:
        """End it at once, also if it is stopped. Its workers go on.

        A worker that it has just forked, and of which the caller does not know, ends when the caller closes its socket.
        """
        self.is_silent, self.why_lost = True, why
        self._popen.kill()

    def close(self) -> None:
        """End it, and all that is still there of what it has started, unless it is lost: then its workers go on."""
        self._take_reports()
        self._let_go()
        for _ in range(2):
            try:
                self._popen.wait(timeout=PATIENCE_SECONDS)
                return
            except subprocess.TimeoutExpired:
                end_all([self.pid, *([] if self.is_lost else descendants_of(self.pid))])

    def _let_go(self) -> None:
        if self._control.fileno() >= 0:
            disown(self._control.fileno())
            self._control.close()
        self._lifeline.close()


def _is_readable(sock: socket.socket, seconds: float) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's
    stat = _stat(pid)
    return stat is None or stat[0] != "Z"


def _stat(pid: int) -> list[str] | None:
    """What the system says of a process, from its state on; ``None`` if it is gone, or the system cannot tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
