"""Some environments in the caller's own process, the others in worker processes.

For environments that cannot run elsewhere: a window, a debugger, a handle that does not cross processes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

from shoal.vector.backends.at_home import AtHome
from shoal.vector.backends.base import Addressed, RealTime
from shoal.vector.backends.processes import ProcessBackend
from shoal.vector.interrupts import allowed
from shoal.vector.layout import Arena
from shoal.vector.messages import Attachment, Command, Event, Op, Outcome, Recipe
from shoal.vector.runner import Runner


class MixedBackend(RealTime):
    """Worker processes, and runners here in the place of some of them."""

    in_process = False

    def __init__(self, processes: ProcessBackend, recipes: Sequence[Recipe], local: Collection[int]) -> None:
        self._processes = processes
        self.name, self.num_workers = processes.name, processes.num_workers
        self._progress = {worker: [0] for worker in local}
        self._runners = {worker: Runner(recipes[worker], self._progress[worker], in_process=True) for worker in local}
        self._at_home = AtHome(self._execute, [recipe.rows for recipe in recipes])
        processes.do_without(local)

    def start(self) -> None:
        """Start the processes."""
        self._processes.start()

    def attach(self, attachment: Attachment, sequence: int) -> Arena:
        """Allocate the arena and tell everybody."""
        arena = self._processes.attach(attachment, sequence)
        self.post([(worker, Command(sequence, Op.ATTACH, attachment)) for worker in self._runners])
        return arena

    def post(self, commands: Sequence[Addressed]) -> None:
        """Hand the commands to the processes, and keep those for here until the next poll."""
        self._processes.post([one for one in commands if one[0] not in self._runners])
        for worker, command in commands:
            if worker in self._runners:
                self._at_home.post(worker, command)

    def poll(self, timeout: float | None, arrivals: int = 1) -> list[Event]:
        """Do the next thing that is to be done here, while the processes are at work; otherwise wait for them."""
        if not self._at_home:
            return self._processes.poll(timeout, arrivals)
        with allowed:
            return self._at_home.carry_out()

    def _execute(self, worker: int, command: Command) -> Outcome:
        if command.op is Op.ATTACH:
            self._runners[worker].attach(command.payload, self._processes.arena)
            return Outcome.empty()
        return self._runners[worker].execute(command)

    def progress(self, worker: int) -> int | None:
        """The environment this worker is working on right now."""
        if worker not in self._runners:
            return self._processes.progress(worker)
        return self._progress[worker][0] - 1 if self._progress[worker][0] else None

    def pid(self, worker: int) -> int:
        """The process of this worker, which may be the caller's."""
        return os.getpid() if worker in self._runners else self._processes.pid(worker)

    def is_here(self, worker: int) -> bool:
        """Whether this worker is the caller's own process."""
        return worker in self._runners

    def kill(self, worker: int) -> None:
        """End a worker process; what runs here cannot be ended."""
        if worker not in self._runners:
            self._processes.kill(worker)

    def memory(self, worker: int) -> int | None:
        """How much memory a worker process takes."""
        return None if worker in self._runners else self._processes.memory(worker)

    def stack(self, worker: int) -> str:
        """Where a worker process is at this moment."""
        return "" if worker in self._runners else self._processes.stack(worker)

    def close(self, grace: float) -> list[str]:
        """Close everything, here and there."""
        self._at_home.clear()
        for runner in self._runners.values():
            runner.slice.close()
        return self._processes.close(grace)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processes, name)
