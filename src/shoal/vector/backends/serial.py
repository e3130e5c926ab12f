"""``serial``: the environments in the caller's own thread, one after the other.

Nothing runs until it is waited for: ``post`` puts a command into a queue and ``poll`` carries it out, one environment at
a time where each is to be reported by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from shoal.vector.backends.base import Addressed, InProcess, Recipe
from shoal.vector.failures import Failure
from shoal.vector.layout import Arena, private_arena
from shoal.vector.messages import EACH, Arrival, Attachment, Command, Event, Op, Outcome, Reply, one_by_one
from shoal.vector.runner import Runner


class SerialBackend(InProcess):
    """One runner, called directly."""

    name: ClassVar[str] = "serial"
    in_process: ClassVar[bool] = True

    def __init__(self, recipes: list[Recipe]) -> None:
        self.num_workers = len(recipes)
        self._progress = [[0] for _ in recipes]
        self.runners = [
            Runner(recipe.rows, recipe.env_fns, progress, in_process=True, entropy=recipe.entropy)
            for recipe, progress in zip(recipes, self._progress, strict=True)
        ]
        self._posted: deque[tuple[int, int | None, Command]] = deque()
        """Worker, the environment if it is to be reported by itself, and what to do."""
        self._interrupted: list[Event] = []

    def start(self) -> None:
        """Nothing to start."""

    def attach(self, attachment: Attachment, sequence: int) -> Arena:
        """Give every runner the same arena."""
        arena = private_arena(attachment.layout)
        for runner in self.runners:
            runner.attach(attachment, arena)
        self._posted.extend((worker, None, Command(sequence, Op.ATTACH)) for worker in range(self.num_workers))
        return arena

    def post(self, commands: Sequence[Addressed]) -> None:
        """Remember the commands until the next poll."""
        for worker, command in commands:
            if command.op in EACH:
                self._posted.extend((worker, row, part) for row, part in one_by_one(command))
            else:
                self._posted.append((worker, None, command))

    def poll(self, timeout: float | None, arrivals: int = 1) -> list[Event]:
        """Carry out the next command."""
        if self._interrupted:
            events, self._interrupted = self._interrupted, []
            return events
        if not self._posted:
            return []
        worker, row, command = self._posted.popleft()
        if row is not None:
            return [self._carry_out_alone(worker, row, command)]
        outcome = Outcome.empty() if command.op is Op.ATTACH else self.runners[worker].execute(command)
        return [Reply(worker, command.sequence, outcome)]

    def _carry_out_alone(self, worker: int, row: int, command: Command) -> Arrival:
        try:
            return Arrival(row, command.sequence, self.runners[worker].execute(command))
        except KeyboardInterrupt as error:
            # Nobody knows how far it got, so this environment has to be reset. The others are not touched.
            failure = Failure.of(error, env_index=row, phase=command.op.label)
            self._interrupted.append(Arrival(row, command.sequence, Outcome([], [], [failure], [])))
            raise

    def doorbell(self) -> AbstractContextManager[int | None]:
        """None: nothing happens unless ``poll`` makes it happen."""
        return nullcontext()

    def perform(self, command: Command) -> Outcome:
        """Carry out a command now, without the queue."""
        return self.runners[0].execute(command)

    def progress(self, worker: int) -> int | None:
        """The environment this runner is working on right now."""
        return self._progress[worker][0] - 1 if self._progress[worker][0] else None

    def kill(self, worker: int) -> None:
        """Impossible in the caller's own thread."""

    def close(self, grace: float) -> list[str]:
        """Close all environments."""
        self._posted.clear()
        for runner in self.runners:
            runner.slice.close()
        return []
