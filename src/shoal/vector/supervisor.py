"""The supervisor: who is alive, who is late; replaces and restores.

It stands between the pool and a backend whose workers can die, and looks like that backend::

    Pool ── post ──▶ Supervisor ── journals ──▶ Backend ──▶ workers
    Pool ◀─ poll ─── Supervisor ◀── replies, arrivals, deaths

A death becomes a replacement, which is brought to where the dead worker was and then asked what it had not answered. The
pool sees only that this took longer::

    well ── dies ──▶ making ── made ──▶ attaching ── attached ──▶ replaying ── replayed, pending asked again ──▶ well
              ▲          │                  │                          │
              └── dies ──┴──────────────────┴──────────────────────────┘

Restarts are limited by deaths without progress: a worker that has answered something has earned a fresh allowance, one
that only dies has not.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from shoal.vector.backends.base import Addressed, Backend
from shoal.vector.errors import ReplayDiverged, WorkerCrashLoop, WorkerTimeout
from shoal.vector.failures import as_error
from shoal.vector.journal import Journal
from shoal.vector.layout import Arena, Array
from shoal.vector.messages import Arrival, Attachment, Command, Death, Event, Op, Replay, Reply, Steps
from shoal.vector.post_mortem import describe_death

logger = logging.getLogger(__name__)

OWN = 2**62  # sequence numbers from here on are the supervisor's own
ALLOWANCE = 3  # deaths without progress that are still answered with a replacement
PAUSES = (0.0, 0.0, 0.1, 0.5)  # seconds before the first, second, ... replacement in a row


class Phase(Enum):
    """How far a worker is."""

    WELL = "well"
    MAKING = "making its environments"
    ATTACHING = "preparing"
    REPLAYING = "replaying"


@dataclass
class Stats:
    """What has happened since the environments were made."""

    restarts: int = 0
    """Workers that were replaced."""
    replayed_steps: int = 0
    """Commands that were done again, counted once for each environment."""
    dropped_replies: int = 0
    """Messages that came too late to matter."""
    seconds_lost: float = 0.0
    """From deaths to the end of the replays."""


@dataclass
class Ward:
    """One worker, as its supervisor sees it."""

    journal: Journal
    phase: Phase = Phase.WELL
    deaths: list[str] = field(default_factory=list)
    """Without progress in between: what each of them looked like."""
    died_at: float = 0.0
    is_late: float = 0.0
    """The deadline for which it was ended, if it was."""
    awaits: int = 0
    """The sequence number of the supervisor's own command that has not been answered."""


class Supervisor:
    """A backend whose workers are replaced when they die."""

    def __init__(self, backend: Backend, rows: Sequence[range], clock: Callable[[], float] = time.monotonic) -> None:
        self._backend = backend
        self.name, self.in_process, self.num_workers = backend.name, backend.in_process, backend.num_workers
        self._rows = list(rows)
        self._wards = [Ward(Journal(its)) for its in rows]
        self._clock = clock
        self._own_sequence = OWN
        self._last_sequence = 0
        self._attachment: Attachment | None = None
        self._arena: Arena | None = None
        self.stats = Stats()

    # -- what a backend can do ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the workers."""
        self._backend.start()

    def attach(self, attachment: Attachment, sequence: int) -> Arena:
        """Lay out the arena, and remember how, for replacements."""
        self._attachment = attachment
        self._arena = self._backend.attach(attachment, sequence)
        return self._arena

    def post(self, commands: Sequence[Addressed]) -> None:
        """Write down the commands and hand them on, except to workers that are being replaced: these get them later."""
        batch: dict[tuple[int, ...], list[Array]] = {}
        for worker, command in commands:
            self._last_sequence = command.sequence
            self._wards[worker].journal.write(command, self._actions_of(command, batch))
        ready = [one for one in commands if self._wards[one[0]].phase is Phase.WELL]
        try:
            self._backend.post(ready)
        except BaseException:
            for worker, command in commands:
                self._wards[worker].journal.forget(command.sequence)
            raise

    def _actions_of(self, command: Command, batch: dict[tuple[int, ...], list[Array]]) -> list[Array]:
        """A copy of the actions in the arena, made once for all workers of a batch."""
        if self._arena is None or command.op not in (Op.STEP, Op.STEP_EACH):
            return []
        wide: tuple[int, ...] = command.payload.wide if isinstance(command.payload, Steps) else ()
        if wide not in batch:
            batch[wide] = [array.copy() for array in self._arena.given_actions(wide)]
        return batch[wide]

    def poll(self, timeout: float | None, arrivals: int = 1) -> list[Event]:
        """As of the backend; deaths are dealt with here, and take time in which nothing else may happen."""
        events: list[Event] = []
        for event in self._backend.poll(timeout, arrivals):
            if isinstance(event, Death) and self._can_restore(event.worker):
                self._replace(event)
            elif isinstance(event, Death):
                events.append(event)
            elif isinstance(event, Arrival):
                self._note_arrival(event)
                events.append(event)
            elif event.sequence >= OWN:
                self._go_on(event)
            else:
                self._note_reply(event)
                events.append(event)
        return events

    def _can_restore(self, worker: int) -> bool:
        """Whether it has ever been well, and everything it did since is known."""
        return self._arena is not None and not self._wards[worker].journal.is_full

    def _note_reply(self, reply: Reply) -> None:
        ward = self._wards[reply.worker]
        if self._arena is not None:
            ward.journal.commit(reply.sequence, self._arena.digests)
            ward.deaths.clear()

    def _note_arrival(self, arrival: Arrival) -> None:
        assert self._arena is not None
        row = arrival.env_index
        ward = self._wards[next(number for number, its in enumerate(self._rows) if row in its)]
        ward.journal.commit_row(arrival.sequence, row, int(self._arena.digests[row]))
        ward.deaths.clear()

    def doorbell(self) -> AbstractContextManager[int | None]:
        """As of the backend."""
        return self._backend.doorbell()

    def progress(self, worker: int) -> int | None:
        """As of the backend."""
        return self._backend.progress(worker)

    def kill(self, worker: int) -> None:
        """As of the backend; what follows is a replacement."""
        self._backend.kill(worker)

    def end_late(self, worker: int, deadline: float) -> None:
        """End a worker that has not answered in time; what follows is a replacement, unless it is being replaced already."""
        ward = self._wards[worker]
        if ward.phase is Phase.WELL:
            ward.is_late = deadline
            self._backend.kill(worker)

    def replace(self, worker: int) -> None:
        """Done here, and not asked of here."""
        raise AssertionError("the supervisor decides who is replaced")

    def close(self, grace: float) -> list[str]:
        """As of the backend."""
        return self._backend.close(grace)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    # -- replacing ---------------------------------------------------------------------------------------------------

    def _replace(self, death: Death) -> None:
        ward = self._wards[death.worker]
        row = self._backend.progress(death.worker)
        doing = ward.phase.value if ward.phase is not Phase.WELL else self._doing(ward)
        which = f"environment {row}" if row is not None else "no environment"
        rows = self._rows[death.worker]
        report = describe_death(death, f"{doing}, at {which}", rows, self._rows[-1].stop)
        if ward.is_late:
            report = f"{which} took longer than {ward.is_late:g} s ({doing}); its worker was ended.\n{report}"
        ward.deaths.append(report.splitlines()[0])
        if ward.phase is Phase.WELL:
            ward.died_at = self._clock()
        was_late, ward.is_late = ward.is_late, 0.0
        if len(ward.deaths) > ALLOWANCE:
            raise (WorkerTimeout if was_late else WorkerCrashLoop)(
                f"worker {death.worker} has died {len(ward.deaths)} times without getting any further:\n  "
                + "\n  ".join(ward.deaths)
                + f"\n  {report.partition(chr(10))[2].strip()}"
            )
        logger.warning("%s\n  It is replaced, and its environments are brought back to where they were.", report)
        self.stats.restarts += 1
        time.sleep(PAUSES[min(len(ward.deaths), len(PAUSES)) - 1])
        self._backend.replace(death.worker)
        ward.phase = Phase.MAKING
        self._ask(death.worker, Op.CONSTRUCT)

    def _doing(self, ward: Ward) -> str:
        pending = ward.journal.pending()
        return f"in {pending[0].command.op.label}()" if pending else "waiting for work"

    def _ask(self, worker: int, op: Op, payload: Any = None) -> None:
        self._own_sequence += 1
        self._wards[worker].awaits = self._own_sequence
        self._backend.post([(worker, Command(self._own_sequence, op, payload))])

    def _go_on(self, reply: Reply) -> None:
        """A replacement has finished a phase: begin the next."""
        worker, ward = reply.worker, self._wards[reply.worker]
        if reply.sequence != ward.awaits:
            return
        if ward.phase is Phase.MAKING:
            if reply.outcome.failures:
                raise WorkerCrashLoop(
                    f"the replacement of worker {worker} could not make its environments again:\n"
                    + as_error(reply.outcome.failures[0], "").message
                )
            ward.phase = Phase.ATTACHING
            self._ask(worker, Op.ATTACH, self._attachment)
        elif ward.phase is Phase.ATTACHING:
            ward.phase = Phase.REPLAYING
            redo = ward.journal.redo()
            self.stats.replayed_steps += sum(len(one.rows) for one in redo if one.op in (Op.STEP, Op.RESET))
            self._ask(worker, Op.RESTORE, Replay(redo, self._last_sequence))
        else:
            if reply.outcome.values:
                raise ReplayDiverged(
                    f"worker {worker} died, and its environments could not be brought back to where they were: "
                    f"{reply.outcome.values[0][1]} gave another result than the first time, for the same seed and actions.\n"
                    "  Likely cause: it is not deterministic (a clock, unseeded or shared random numbers, a network); "
                    "shoal.testing.check_parallel finds out.\n"
                    '  What to do: cure it, or pass on_fault="raise".'
                )
            self._resume(worker, ward)

    def _resume(self, worker: int, ward: Ward) -> None:
        """Ask again what had not been answered."""
        assert self._arena is not None
        ward.phase = Phase.WELL
        self.stats.seconds_lost += self._clock() - ward.died_at
        for entry in ward.journal.pending():
            command = entry.rest()
            if command.op in (Op.STEP, Op.STEP_EACH):
                # The replay has used the place where the actions were.
                steps = command.payload
                rows = list(entry.rows if steps is None else steps.rows)
                wide: tuple[int, ...] = () if steps is None else steps.wide
                for target, source in zip(self._arena.given_actions(wide), entry.actions, strict=True):
                    target[rows] = source[rows]
            self._backend.post([(worker, command)])
