"""One process per contestant, so that no library disturbs another.

    the run ──pipe──▶ host of shoal-shm       ──▶ its workers
            ──pipe──▶ host of gymnasium-async ──▶ its workers
            ──pipe──▶ host of ideal           ──▶ its loops
                      …one per rig, frozen unless it is its turn

A host imports only its own library, as a user's script would. It leads a process group of its own:
a rig that hangs is ended with all its workers, and costs the run one line of the report. Frozen means
stopped, with all its workers: what spins while it idles disturbs nobody. When the run is killed, the
host reads the end of its pipe and ends its group; if it is frozen, the system does that, because a
stopped group that has lost its parent is hung up on.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks import peers_venv
from benchmarks.throughput.rigs.base import Rig
from benchmarks.throughput.rigs.catalogue import RigSpec
from benchmarks.throughput.workload import Workload

LOAD_SECONDS = 300.0
START_SECONDS = 300.0
MEASURE_SECONDS = 120.0
CLOSE_SECONDS = 60.0


class RigError(Exception):
    """A rig could not be loaded, started, measured or closed; the message is for the report."""


class Request(NamedTuple):
    method: str
    argument: Workload | int | None


class Reply(NamedTuple):
    value: float | str | None
    problem: str | None


class Host:
    """The run's handle on a contestant. After a failure the next load starts a fresh process."""

    def __init__(self, spec: RigSpec, log_folder: Path) -> None:
        self.spec = spec
        self._log = log_folder / f"{spec.name}.log"
        self._connection: Connection | None = None

    def launch(self) -> None:
        """Start the process and let it import its library; several hosts can do so at once."""
        if self._connection is not None:
            return
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.spec, self._log))
        self._process.start()
        if self._process.pid is None:
            raise RigError("its process did not start")
        self.pid = self._process.pid
        theirs.close()

    def wait_until_loaded(self) -> None:
        """Raises ``RigError`` when the library cannot be imported."""
        self._receive(LOAD_SECONDS)

    def launch_and_wait(self) -> None:
        """Both, unless it has been done."""
        if self._connection is None:
            self.launch()
            self.wait_until_loaded()

    def start(self, workload: Workload) -> None:
        self.launch_and_wait()
        self.thaw()
        self._ask("start", workload, START_SECONDS)

    def measure(self, rounds: int) -> float:
        """Environment steps per second over so many rounds."""
        rate = self._ask("measure", rounds, MEASURE_SECONDS)
        if not isinstance(rate, float):
            raise RigError("returned no rate")
        return rate

    def remark(self) -> str | None:
        """What the rig says of how it runs."""
        remark = self._ask("remark", None, MEASURE_SECONDS)
        return None if remark is None else str(remark)

    def measure_thawed(self, rounds_to_settle: int, rounds: int) -> float:
        """The same of a frozen rig, once everybody is awake; it is frozen again afterwards."""
        self.thaw()
        self.measure(rounds_to_settle)
        rate = self.measure(rounds)
        self.freeze()
        return rate

    def close(self) -> None:
        self.thaw()
        self._ask("close", None, CLOSE_SECONDS)

    def freeze(self) -> None:
        """Stop the host, then everything it started."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """End the host and everything it started."""
        if self._connection is None:
            return
        self.thaw()
        self._connection.close()
        self._connection = None
        self._process.join(timeout=5)
        # Its workers live in the group it leads, and can outlast it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.join()

    def _signal(self, number: signal.Signals) -> None:
        # Not only the group: a library's workers may lead groups of their own.
        with contextlib.suppress(psutil.NoSuchProcess):
            host = psutil.Process(self.pid)
            for process in (host, *host.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)

    def _ask(self, method: str, argument: Workload | int | None, seconds: float) -> float | str | None:
        if self._connection is None:
            raise RigError("its process is gone")
        try:
            self._connection.send(Request(method, argument))
        except OSError:
            self.end()
            raise RigError(f"its process died before {method}") from None
        return self._receive(seconds, method)

    def _receive(self, seconds: float, method: str = "load") -> float | str | None:
        if self._connection is None:
            raise RigError("its process is gone")
        try:
            if not self._connection.poll(seconds):
                self.end()
                raise RigError(f"{method} took longer than {seconds:.0f} s")
            reply: Reply = self._connection.recv()
        except (EOFError, OSError):
            self.end()
            raise RigError(f"its process died during {method}") from None
        if reply.problem is not None:
            self.end()
            raise RigError(reply.problem)
        return reply.value


def load_all(hosts: Sequence[Host]) -> dict[str, str]:
    """Import every library, each in its host, all at once; return who could not and why."""
    installation = peers_venv.installation_problems()
    problems = {}
    for host in hosts:
        host.launch()
    for host in hosts:
        try:
            host.wait_until_loaded()
        except RigError as failure:
            reason = installation.get(host.spec.distribution)
            problems[host.spec.name] = f"not installed: {reason}" if reason else str(failure)
    return problems


def _serve(connection: Connection, spec: RigSpec, log: Path) -> None:
    # A group, not a session: the system hangs up on stopped groups only in the session of who has died.
    os.setpgid(0, 0)
    # A spawned process would spawn in turn; a user's script starts with the platform's default.
    multiprocessing.set_start_method(None, force=True)
    _redirect_output(log)
    # PufferLib leaves a link in the current folder when it is imported.
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            rig = spec.build()
        except BaseException as problem:
            connection.send(Reply(None, _one_line(problem)))
            return
        connection.send(Reply(None, None))
        _answer(connection, rig)


def _answer(connection: Connection, rig: Rig) -> None:
    while True:
        try:
            request: Request = connection.recv()
        except EOFError:
            # Not by returning: a library's workers may wait for a word that only this process could send.
            os.killpg(0, signal.SIGKILL)
        try:
            value = getattr(rig, request.method)(*_arguments(request))
        except Exception as problem:
            connection.send(Reply(None, _one_line(problem)))
        else:
            connection.send(Reply(value, None))


def _arguments(request: Request) -> tuple[Workload | int, ...]:
    return () if request.argument is None else (request.argument,)


def _one_line(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__


def _redirect_output(log: Path) -> None:
    """What libraries and their workers print goes to a file, out of the way of the table."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
