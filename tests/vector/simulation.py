"""Workers, time and accidents that are all made up, so that thousands of accidents fit into a minute.

The environments and runners are real, and so is everything above them. What is simulated is what a backend adds: processes
that die at any moment, messages that are late, and a clock. Everything follows from one seed.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import compress
from typing import Any

import numpy as np

from shoal.vector.backends.base import Addressed
from shoal.vector.halves import Half
from shoal.vector.layout import Arena, as_index, private_arena
from shoal.vector.messages import (
    EACH,
    NOTHING,
    Arrival,
    Attachment,
    Command,
    Death,
    Event,
    Op,
    Outcome,
    Recipe,
    Reply,
    one_by_one,
)
from shoal.vector.runner import Runner


class End(KeyboardInterrupt):  # which a runner in this process takes for no failure of an environment
    """Raised by an environment that ends its process."""


DEATHS = ("before", "during", "after", "after the reply")
ACCIDENTS = (*DEATHS, "hang")


class SimulatedWorker:
    """One process that does not exist."""

    def __init__(self, number: int, recipe: Recipe, generation: int) -> None:
        self.number, self.generation = number, generation
        self.progress = [0]
        self.queue: deque[tuple[int | None, Command]] = deque()
        self.is_dead = self.is_buried = self.hangs = False
        self.attachment: Attachment | None = None
        self.employ(recipe)

    def employ(self, recipe: Recipe) -> None:
        self.rows = recipe.rows
        self.runner = Runner(recipe, self.progress, in_process=True)


class SimulatedBackend:
    """A backend in which a seed decides who works next, and who dies."""

    name, in_process, has_sheet = "shm", False, False
    dropped_replies = 0

    def __init__(
        self,
        recipes: list[Recipe],
        seed: int,
        danger: float,
        possible: Sequence[str] = ACCIDENTS,
        most_in_a_row: int = 10**9,
    ) -> None:
        self.num_workers = len(recipes)
        self._recipes = recipes
        self._chance = random.Random(seed)
        self._danger, self._possible, self._most_in_a_row = danger, possible, most_in_a_row
        self._in_a_row: Counter[int] = Counter()
        """Accidents of a worker since it last answered."""
        self._now = 0.0
        self._arena: Arena
        self._attached = False
        self._generation = 0
        self._workers: dict[int, SimulatedWorker] = {}
        self._told: list[Event] = []
        """What has happened and was not asked for yet."""
        self.accidents: list[str] = []
        self.steps_finished = self.halves_finished = 0
        """On the short way."""

    # -- time --------------------------------------------------------------------------------------------------------

    def clock(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds

    # -- a backend ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        for worker in range(self.num_workers):
            self.replace(worker)

    def replace(self, worker: int) -> None:
        self._generation += 1
        self._workers[worker] = SimulatedWorker(worker, self._recipes[worker], self._generation)

    def start_spare(self) -> bool:
        if self.num_workers in self._workers:
            return False
        self._generation += 1
        self._workers[self.num_workers] = SimulatedWorker(self.num_workers, self._recipes[0], self._generation)
        return True

    def end_spare(self) -> None:
        self._workers.pop(self.num_workers, None)

    def attach(self, attachment: Attachment, sequence: int) -> Arena:
        self._arena = private_arena(attachment.layout)
        self._attached = True
        self.post([(worker, Command(sequence, Op.ATTACH, attachment)) for worker in range(self.num_workers)])
        return self._arena

    def post(self, commands: Sequence[Addressed]) -> None:
        for number, command in commands:
            worker = self._workers[number]
            if worker.is_dead:
                continue  # as with a socket whose other end is gone
            if command.op in EACH:
                worker.queue.extend(one_by_one(command))
            else:
                worker.queue.append((None, command))

    def is_here(self, worker: int) -> bool:
        return False

    @property
    def steps_at_once(self) -> bool:
        return self._chance.random() < 0.8

    def order_step(self, sequence: int) -> None:
        self.post([(worker, Command(sequence, Op.STEP)) for worker in range(self.num_workers)])

    def order_half(self, half: Half) -> None:
        self.post([(worker, Command(half.sequence, Op.STEP_EACH, steps)) for worker, steps in half.steps.items()])

    def finish_half(self, half: Half) -> Outcome | None:
        """As :meth:`finish_step`; the other half may be done as well, and somebody may have died since."""
        self._work_for_a_while()
        is_its = [isinstance(event, Arrival) and event.sequence == half.sequence for event in self._told]
        arrived = list(compress(self._told, is_its))
        if len(arrived) < len(half.rows) or any(any(event.outcome) for event in arrived):  # type: ignore[union-attr]
            return None
        self._told = [event for event, its in zip(self._told, is_its, strict=True) if not its]
        self.halves_finished += 1
        return NOTHING

    def _work_for_a_while(self) -> None:
        while any(worker.queue for worker in self._workers.values()) and self._chance.random() < 0.98:
            events = self._go_on(0.01)
            if not events:
                break
            self._told.extend(events)

    def finish_step(self, sequence: int) -> Outcome | None:
        """Sometimes all are done already; often somebody is not, has more to tell, or never will be."""
        self._work_for_a_while()
        answers = {event.worker: event for event in self._told if isinstance(event, Reply)}
        if len(answers) < self.num_workers or len(answers) < len(self._told):
            return None
        if any(event.sequence != sequence or any(event.outcome) for event in answers.values()):
            return None
        self._told.clear()
        self.steps_finished += 1
        return NOTHING

    def poll(self, timeout: float | None, arrivals: int = 1) -> list[Event]:
        if self._told:
            told, self._told = self._told, []
            return told
        return self._go_on(timeout)

    def _go_on(self, timeout: float | None) -> list[Event]:
        self._now += self._chance.expovariate(1000)
        dead = [worker for worker in self._workers.values() if worker.is_dead and not worker.is_buried]
        if dead:
            dead[0].is_buried = True
            return [Death(dead[0].number, 1000 + dead[0].generation, -9)]
        busy = [worker for worker in self._workers.values() if worker.queue and not worker.is_dead and not worker.hangs]
        if not busy:
            assert timeout is not None, "everybody would wait for ever"
            self._now += timeout
            return []
        return self._work(self._chance.choice(busy))

    def _work(self, worker: SimulatedWorker) -> list[Event]:
        row, command = worker.queue[0]
        accident = self._accident() if self._in_a_row[worker.number] < self._most_in_a_row else ""
        if accident:
            self._in_a_row[worker.number] += 1
            self.accidents.append(f"{accident} in {command.op.name} of worker {worker.number}")
            rows: Any = worker.rows if row is None else [row]
            if command.op is Op.RESET:
                rows = [reset.env_index for reset in command.payload]
            worker.progress[0] = self._chance.choice(list(rows)) + 1 if rows and command.op is not Op.ATTACH else 0
            if accident == "hang":
                worker.hangs = True
                return []
            if accident == "before":
                worker.is_dead = True
                return []
            if accident == "during" and self._attached and command.op in (Op.STEP, Op.RESET):
                self._tear(rows)
                worker.is_dead = True
                return []
        worker.queue.popleft()
        try:
            outcome = self._carry_out(worker, command)
        except End:
            self.accidents.append(f"{command.op.name} of worker {worker.number} ended it")
            worker.is_dead = True
            return []
        self._now += self._chance.expovariate(20)
        if command.op is Op.CLOSE:
            worker.is_dead = True
            return []
        if accident:
            worker.is_dead = True
            if accident != "after the reply":
                return []
        self._in_a_row[worker.number] = 0
        if row is not None:
            return [Arrival(row, command.sequence, outcome)]
        return [Reply(worker.number, command.sequence, outcome)]

    def _accident(self) -> str:
        return self._chance.choice(self._possible) if self._chance.random() < self._danger else ""

    def _tear(self, rows: Any) -> None:
        """A write that was not finished."""
        for array in self._arena.results:
            raw = array[as_index(rows)].view(np.uint8)
            array[as_index(rows)] = np.full_like(raw, 1).view(array.dtype).reshape(array[as_index(rows)].shape)

    def _carry_out(self, worker: SimulatedWorker, command: Command) -> Outcome:
        if command.op is Op.CONSTRUCT and isinstance(command.payload, Recipe):
            worker.employ(command.payload)
            command = Command(command.sequence, Op.CONSTRUCT)
        if command.op is Op.ATTACH:
            worker.runner.attach(command.payload, self._arena)
            return Outcome.empty()
        return worker.runner.execute(command)

    def doorbell(self) -> AbstractContextManager[int | None]:
        return nullcontext()

    def progress(self, worker: int) -> int | None:
        row = self._workers[worker].progress[0]
        return row - 1 if row else None

    def memory(self, worker: int) -> int:
        return self._chance.randrange(100)

    def stack(self, worker: int) -> str:
        return ""

    def kill(self, worker: int) -> None:
        self._workers[worker].is_dead = True

    def close(self, grace: float) -> list[str]:
        return []
