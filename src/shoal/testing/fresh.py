"""Fresh processes: every experiment with a user's environment runs in one of its own, and can be ended.

::

    check_parallel ── job: which experiment, the factory, what to compare with ──▶ fresh interpreter
          │        ◀── result, and before it, always: what it is doing, and since when ──┘
          └── ends it when one call of the environment takes too long, or all of it does

Jobs, results and what is printed are in files without a name, so nothing is left behind however a process ends. A fresh
process imports nothing of the caller's but what its factory needs, and its ``PYTHONHASHSEED`` is chosen.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, NoReturn

from shoal.vector.cpus import usable_cpus
from shoal.vector.pickling import dump_by_value
from shoal.vector.registrations import own_registrations, register_here

_BOOT = (
    "import json, sys; boot = json.loads(sys.argv[1]); sys.path[:] = boot['path']; "
    "from shoal.testing import fresh; fresh.begin(boot)"
)
_DOING = struct.Struct("<d248s")
"""When the present call began, on the clock that all processes share, and what it is."""
POLL_SECONDS = 0.005
START_SECONDS = 30.0  # beyond what a call may take: a machine may be busy, and imports large
GRACE_SECONDS = 3.0


@dataclass(frozen=True)
class Job:
    """What a fresh process does."""

    experiment: str
    """The function to call, as ``module:function``."""
    arguments: dict[str, Any]
    hash_seed: int = 0


@dataclass(frozen=True)
class Ending:
    """How a fresh process ended."""

    result: Any
    """What the experiment returned; ``None`` if it did not get that far."""
    problem: str = ""
    """``"died"``, ``"call-too-slow"``, ``"all-too-slow"``, ``"broken"``, or nothing."""
    doing: str = ""
    """What it was doing, in words."""
    how: str = ""
    """The signal or exit code in words, where it died."""
    printed: str = ""
    """The end of what it printed, with the stack of one that was ended."""


@dataclass(frozen=True)
class Patience:
    """How long to wait."""

    call_seconds: float
    """For one call of an environment."""
    end: float
    """For everything, on the monotonic clock."""


class FreshProcess:
    """One of them, from start to end."""

    def __init__(self, job: Job, patience: Patience) -> None:
        self._patience = patience
        self._problem = ""
        self._files: list[IO[bytes]] = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115 - closed by close()
        job_file, self._result, self._printed = self._files
        job_file.write(dump_by_value((own_registrations(), job)))
        job_file.flush()
        job_file.seek(0)
        self._result.write(_DOING.pack(time.monotonic() + START_SECONDS, b"starting a process"))
        self._result.flush()
        descriptors = [job_file.fileno(), self._result.fileno()]
        boot = {
            "path": [os.fspath(path) for path in sys.path],
            "files": descriptors,
            "seconds": patience.end - time.monotonic(),
        }
        self._popen = subprocess.Popen(
            [sys.executable, "-c", _BOOT, json.dumps(boot)],
            stdin=subprocess.DEVNULL,
            stdout=self._printed,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONHASHSEED": str(job.hash_seed), "PYTHONWARNINGS": "ignore"},
            pass_fds=descriptors,
            process_group=0,
        )

    def look(self) -> Ending | None:
        """How it ended, or ``None`` if it goes on. Ends it if it has had its time."""
        if self._popen.poll() is None:
            now = time.monotonic()
            began, _ = self._doing()
            if now < self._patience.end and now - began < self._patience.call_seconds:
                return None
            self._problem = "all-too-slow" if now >= self._patience.end else "call-too-slow"
            self._interrupt()
        return self._ending()

    def _doing(self) -> tuple[float, str]:
        began, text = _DOING.unpack(os.pread(self._result.fileno(), _DOING.size, 0))
        return began, text.rstrip(b"\0").decode(errors="replace")

    def _interrupt(self) -> None:
        """Ask for its stack, then for its end; closing environments in processes of their own may take a moment."""
        self._signal(signal.SIGUSR1)
        time.sleep(0.05)
        self._signal(signal.SIGTERM)
        try:
            self._popen.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            pass

    def _signal(self, number: signal.Signals) -> None:
        if self._popen.poll() is None:
            self._popen.send_signal(number)

    def _ending(self) -> Ending:
        doing = self._doing()[1]
        result = None
        self._result.seek(_DOING.size)
        if not self._problem:
            try:
                kind, result = pickle.load(self._result)
                self._problem = "" if kind == "result" else "broken"
            except EOFError:
                self._problem = "died"
        code = self._popen.poll()
        self.end()
        self._printed.seek(0)
        printed = self._printed.read()[-4000:].decode(errors="replace")
        self.close()
        if self._problem == "broken":
            return Ending(None, "broken", doing, printed=str(result))
        return Ending(result, self._problem, doing, _how(code), printed)

    def end(self) -> None:
        """End it, and whatever it has started in its group."""
        try:
            os.killpg(self._popen.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self._popen.wait()

    def close(self) -> None:
        """Give up the files."""
        for file in self._files:
            file.close()


@dataclass
class Laboratory:
    """Runs jobs, as many at a time as there are processors."""

    patience: Patience
    at_once: int = field(default_factory=lambda: max(1, min(8, usable_cpus())))

    def run(self, jobs: Sequence[Job]) -> list[Ending]:
        """All of them; returns how each ended, in the order of the jobs."""
        waiting = deque(enumerate(jobs))
        running: dict[int, FreshProcess] = {}
        endings: dict[int, Ending] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.at_once:
                    number, job = waiting.popleft()
                    running[number] = FreshProcess(job, self.patience)
                for number, process in list(running.items()):
                    ending = process.look()
                    if ending is not None:
                        endings[number] = ending
                        del running[number]
                time.sleep(POLL_SECONDS)
        finally:
            for process in running.values():
                process.end()
                process.close()
        return [endings[number] for number in range(len(jobs))]


def _how(code: int | None) -> str:
    if code is None:
        return "it had to be killed"
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


# -- inside the fresh process ------------------------------------------------------------------------------------


class Progress:
    """Says what is being done, for whoever watches from outside. An attendant of runs."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def say(self, doing: str, seconds_more: float = 0.0) -> None:
        """Something begins that may take as long as a call of an environment, and so much more."""
        os.pwrite(self._descriptor, _DOING.pack(time.monotonic() + seconds_more, doing.encode()[:248]), 0)

    def before(self, call: str, place: str) -> None:
        """An environment is about to be called."""
        self.say(place)

    def after(self, call: str, place: str, env: Any, result: Any) -> None:
        """It has returned."""


def begin(boot: dict[str, Any]) -> NoReturn:
    """Where a fresh process begins, and ends."""
    job_fd, result_fd = boot["files"]
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    faulthandler.dump_traceback_later(boot["seconds"] + 2 * GRACE_SECONDS, exit=True)  # should nobody end it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to judge
    outcome: tuple[str, Any]
    try:
        with os.fdopen(job_fd, "rb") as file:
            registrations, job = pickle.load(file)
        register_here(registrations)
        outcome = "result", _function(job.experiment)(Progress(result_fd), **job.arguments)
    except Exception:
        outcome = "broken", traceback.format_exc()
    sys.stdout.flush()
    with os.fdopen(result_fd, "wb", closefd=False) as file:
        file.seek(_DOING.size)
        file.write(pickle.dumps(outcome))
    os._exit(0)  # threads that an environment left behind must not keep the process


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found
