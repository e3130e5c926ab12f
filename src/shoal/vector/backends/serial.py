"""``serial``: the environments in the caller's own thread, one after the other.

Nothing runs until it is waited for: ``post`` puts a command into a queue and ``poll`` carries it out, one environment at
a time where each is to be reported by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from shoal.vector.backends.at_home import AtHome
from shoal.vector.backends.base import Addressed, InProcess
from shoal.vector.halves import ALL
from shoal.vector.layout import Arena, private_arena
from shoal.vector.messages import Attachment, Command, Event, Op, Outcome, Recipe
from shoal.vector.runner import Runner


class SerialBackend(InProcess):
    """One runner, called directly."""

    name: ClassVar[str] = "serial"
    in_process: ClassVar[bool] = True

    def __init__(self, recipes: list[Recipe]) -> None:
        self.num_workers = len(recipes)
        self._progress = [[0] for _ in recipes]
        self.runners = [
            Runner(recipe, progress, in_process=True) for recipe, progress in zip(recipes, self._progress, strict=True)
        ]
        self._at_home = AtHome(self._execute)

    def start(self) -> None:
        """Nothing to start."""

    def attach(self, attachment: Attachment, sequence: int) -> Arena:
        """Give every runner the same arena."""
        arena = private_arena(attachment.layout)
        for runner in self.runners:
            runner.attach(attachment, arena)
        for worker in range(self.num_workers):
            self._at_home.post(worker, Command(sequence, Op.ATTACH))
        return arena

    def post(self, commands: Sequence[Addressed]) -> None:
        """Remember the commands until the next poll."""
        for worker, command in commands:
            self._at_home.post(worker, command)

    def poll(self, timeout: float | None, arrivals: int = 1) -> list[Event]:
        """Carry out the next command."""
        return self._at_home.carry_out() if self._at_home else []

    def _execute(self, worker: int, command: Command) -> Outcome:
        return Outcome.empty() if command.op is Op.ATTACH else self.runners[worker].execute(command)

    @property
    def steps_at_once(self) -> bool:  # type: ignore[override]
        """Whether there is nothing to be done before."""
        return self.num_workers == 1 and not self._at_home

    def order_step(self, sequence: int) -> None:
        """Nothing: it is carried out when it is waited for."""

    def finish_step(self, sequence: int) -> Outcome | None:
        """Carry it out."""
        return self.runners[0].step_share(ALL, sequence)

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
        self._at_home.clear()
        for runner in self.runners:
            runner.slice.close()
        return []
