"""Commands for runners in the caller's own thread: nothing happens until it is waited for, and then one thing at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from shoal.vector.failures import Failure
from shoal.vector.layout import Rows
from shoal.vector.messages import (
    EACH,
    Arrival,
    Command,
    Event,
    Op,
    Outcome,
    Reply,
    apart,
    is_together,
    one_by_one,
)

Execute = Callable[[int, Command], Outcome]
"""What carries out a command of a worker."""


class AtHome:
    """What is still to be done here."""

    def __init__(self, execute: Execute, rows: Sequence[range] = ()) -> None:
        self._execute = execute
        self._rows = rows
        """Every worker's, where a command that is interrupted is answered all the same, because others go on with it."""
        self._posted: deque[tuple[int, Rows | None, Command]] = deque()
        """Worker, the environments if they are to be reported by themselves, and what to do."""
        self._interrupted: list[Event] = []

    def __bool__(self) -> bool:
        return bool(self._posted or self._interrupted)

    def post(self, worker: int, command: Command) -> None:
        """Remember this until it is its turn."""
        if is_together(command):
            self._posted.append((worker, command.payload.rows, Command(command.sequence, Op.STEP, command.payload)))
        elif command.op in EACH:
            self._posted.extend((worker, [row], part) for row, part in one_by_one(command))
        else:
            self._posted.append((worker, None, command))

    def carry_out(self) -> list[Event]:
        """Do the next thing."""
        if self._interrupted:
            events, self._interrupted = self._interrupted, []
            return events
        worker, rows, command = self._posted.popleft()
        try:
            outcome = self._execute(worker, command)
        except BaseException as error:  # from the handler of a signal
            # Nothing tells how far these got, so they have to be reset. The others are not touched.
            touched = rows if rows is not None else self._rows[worker] if self._rows else []
            if touched:
                failures = [Failure.of(error, env_index=row, phase=command.op.label) for row in touched]
                self._interrupted.extend(_events(worker, rows, command, Outcome([], [], failures, [])))
            raise
        return _events(worker, rows, command, outcome)

    def clear(self) -> None:
        """Nothing of it is wanted any more."""
        self._posted.clear()


def _events(worker: int, rows: Rows | None, command: Command, outcome: Outcome) -> list[Event]:
    if rows is None:
        return [Reply(worker, command.sequence, outcome)]
    return [Arrival(row, command.sequence, its) for row, its in apart(outcome, rows).items()]
