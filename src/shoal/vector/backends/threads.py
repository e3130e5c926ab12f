"""``threads``: the environments in threads of the caller's process.

Worth it where a step waits or computes outside Python's lock. Each runner has a thread and a queue of its own; all of
them answer into one queue::

    post ──▶ commands[i] ──▶ thread i: runner.execute ──▶ answers ──▶ poll
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import ClassVar

from shoal.vector.backends.base import Addressed, InProcess
from shoal.vector.failures import Failure
from shoal.vector.forked import end_if_forked
from shoal.vector.interrupts import allowed
from shoal.vector.layout import Arena, private_arena
from shoal.vector.messages import (
    EACH,
    Arrival,
    Attachment,
    Command,
    Event,
    Op,
    Outcome,
    Recipe,
    Reply,
    apart,
    is_together,
    one_by_one,
)
from shoal.vector.runner import Runner


class ThreadsBackend(InProcess):
    """One thread for each runner."""

    name: ClassVar[str] = "threads"
    in_process: ClassVar[bool] = True

    def __init__(self, recipes: list[Recipe]) -> None:
        self.num_workers = len(recipes)
        self._progress = [[0] for _ in recipes]
        self.runners = [
            Runner(recipe, progress, in_process=True) for recipe, progress in zip(recipes, self._progress, strict=True)
        ]
        self._commands: list[SimpleQueue[Command]] = [SimpleQueue() for _ in recipes]
        self._answers = Answers()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads. They are daemons, so that one stuck in an environment cannot keep the program from ending."""
        for worker, (runner, commands) in enumerate(zip(self.runners, self._commands, strict=True)):
            thread = threading.Thread(
                target=_serve, args=(worker, runner, commands, self._answers), name=f"shoal-{worker}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def attach(self, attachment: Attachment, sequence: int) -> Arena:
        """Give every runner the same arena."""
        arena = private_arena(attachment.layout)
        for worker, runner in enumerate(self.runners):
            runner.attach(attachment, arena)
            self.post([(worker, Command(sequence, Op.ATTACH))])
        return arena

    def post(self, commands: Sequence[Addressed]) -> None:
        """Hand commands to threads."""
        for worker, command in commands:
            self._commands[worker].put(command)

    def poll(self, timeout: float | None, arrivals: int = 1) -> list[Event]:
        """Wait for an answer, then take all that are there."""
        return self._answers.take(timeout)

    def doorbell(self) -> AbstractContextManager[int | None]:
        """A socket that threads write to."""
        return self._answers.doorbell()

    def progress(self, worker: int) -> int | None:
        """The environment this runner is working on right now."""
        return self._progress[worker][0] - 1 if self._progress[worker][0] else None

    def kill(self, worker: int) -> None:
        """Impossible: Python cannot end a thread."""

    def close(self, grace: float) -> list[str]:
        """Let each thread close its environments. One that does not come back in time is left behind."""
        late = []
        deadline = time.monotonic() + grace
        for commands in self._commands:
            commands.put(Command(0, Op.CLOSE))
        for worker, thread in enumerate(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                late.append(
                    f"environment {self.progress(worker)} did not return within {grace:.1f} s of close(); "
                    "its thread cannot be ended and is left behind"
                )
        self._threads.clear()
        return late


class Answers:
    """What threads have answered, with a bell for who waits in an event loop."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._tokens: SimpleQueue[None] = SimpleQueue()
        """One for each answer. An interrupted wait may lose one of these, but no answer."""
        self._bell: tuple[socket.socket, socket.socket] | None = None

    def put(self, event: Event) -> None:
        """Answer, and ring if somebody listens."""
        self._events.append(event)
        self._tokens.put(None)
        bell = self._bell
        if bell is not None:
            with suppress(OSError):  # full, so it rings already; or closed a moment ago
                bell[1].send(b".")

    def take(self, timeout: float | None) -> list[Event]:
        """Wait for an answer, then take all that are there."""
        while not self._tokens.empty():  # of answers that were taken earlier, or are taken now
            self._tokens.get()
        if not self._events:
            with allowed, suppress(Empty):
                self._tokens.get(timeout=timeout)
        self._silence()  # before answers are taken: one that comes now rings again
        taken = []
        while self._events:
            taken.append(self._events.popleft())
        return taken

    def _silence(self) -> None:
        if self._bell is not None:
            with suppress(BlockingIOError):
                self._bell[0].recv(4096)

    @contextmanager
    def doorbell(self) -> Iterator[int]:
        """Ring from now on."""
        self._bell = socket.socketpair()
        for end in self._bell:
            end.setblocking(False)
        try:
            yield self._bell[0].fileno()
        finally:
            bell, self._bell = self._bell, None
            for end in bell:
                end.close()


def _serve(worker: int, runner: Runner, commands: SimpleQueue[Command], answers: Answers) -> None:
    home = os.getpid()
    while True:
        command = commands.get()
        if is_together(command):
            outcome = _outcome_of(runner, Command(command.sequence, Op.STEP, command.payload), home)
            for row, its in apart(outcome, command.payload.rows).items():
                answers.put(Arrival(row, command.sequence, its))
            continue
        if command.op in EACH:
            for row, part in one_by_one(command):
                answers.put(Arrival(row, part.sequence, _outcome_of(runner, part, home)))
            continue
        outcome = Outcome.empty() if command.op is Op.ATTACH else _outcome_of(runner, command, home)
        answers.put(Reply(worker, command.sequence, outcome))
        if command.op is Op.CLOSE:
            return


def _outcome_of(runner: Runner, command: Command, home: int) -> Outcome:
    try:
        return runner.execute(command)
    except BaseException as error:  # a fault of ours: the caller would wait for ever for a thread that has ended
        at_work = runner.slice.progress[0]
        row = at_work - 1 if at_work else runner.rows.start
        return Outcome([], [], [Failure.of(error, env_index=row, phase=command.op.label)], [])
    finally:
        end_if_forked(home)  # there, nobody waits for what this thread answers
