"""The journal: everything a worker was asked to do, so that another one can do it again.

It is kept by the caller and written before anything is sent. What has been answered has a digest of each result; what
has not is *pending*, and is asked again after a replay::

    reset  step  step  step  step
      ✓     ✓     ✓     ✓    pending        ✓ replayed, and compared with its digests; pending: asked again

A worker's environments are replayed together and in the order in which they were run, so that even those which share
something with their neighbours (global random numbers, class attributes) come out as they were.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from shoal.vector.layout import Array, Rows, as_index
from shoal.vector.messages import EACH, Command, Op, Redo, Steps, one_by_one

logger = logging.getLogger(__name__)

LONGEST = 1_000_000
JOURNALED = (Op.RESET, Op.STEP, Op.CALL, Op.SET_ATTR, *EACH)


@dataclass(slots=True)
class Entry:
    """One command, and what came of it."""

    command: Command
    rows: Rows
    actions: list[Array]
    """The whole batch that the environments' actions were part of."""
    digests: Array | None = None
    """Of ``rows``, once it has been answered as a whole."""
    done: dict[int, int] = field(default_factory=dict)
    """Environments that have answered for themselves, in that order, and their digests."""

    @property
    def is_pending(self) -> bool:
        """Whether somebody has yet to answer."""
        if self.command.op in EACH:
            return len(self.done) < len(self.rows)
        return self.digests is None

    def redo(self) -> Iterator[Redo]:
        """What has been answered, to be done again."""
        _, op, payload = self.command
        if op in EACH:
            parts = dict(one_by_one(self.command))
            for row, digest in self.done.items():
                _, single_op, single = parts[row]
                yield Redo(single_op, [row], single, [array[[row]] for array in self.actions], [digest])
        elif self.digests is not None:
            if op is Op.STEP and payload is None:
                payload = Steps(self.rows, [], ())
            actions = [array[as_index(self.rows)] for array in self.actions]
            yield Redo(op, self.rows, payload, actions, self.digests.tolist())

    def rest(self) -> Command:
        """What has not been answered, to be asked again."""
        sequence, op, payload = self.command
        if op not in EACH or not self.done:
            return self.command
        if op is Op.RESET_EACH:
            return Command(sequence, op, [reset for reset in payload if reset.env_index not in self.done])
        rows = [row for row in payload.rows if row not in self.done]
        return Command(sequence, op, Steps(rows, [one for one in payload.loose if one[0] in rows], payload.wide))


class Journal:
    """What one worker was asked, in order."""

    def __init__(self, rows: range) -> None:
        self.rows = rows
        self.entries: list[Entry] = []
        self._pending: dict[int, Entry] = {}
        self.is_full = False
        """Whether it has become too long to be kept, so that nothing can be replayed any more."""

    def write(self, command: Command, actions: list[Array]) -> None:
        """Write down a command before it is sent."""
        if command.op not in JOURNALED or self.is_full:
            return
        if len(self.entries) >= LONGEST:
            self._give_up()
            return
        entry = Entry(command, _rows_of(command, self.rows), actions)
        self.entries.append(entry)
        self._pending[command.sequence] = entry

    def commit(self, sequence: int, digests: Array) -> None:
        """A command has been answered by all environments of this worker."""
        entry = self._pending.pop(sequence, None)
        if entry is not None:
            entry.digests = digests[as_index(entry.rows)].copy()

    def commit_row(self, sequence: int, row: int, digest: int) -> None:
        """A command has been answered by one environment."""
        entry = self._pending.get(sequence)
        if entry is not None:
            entry.done[row] = digest
            if not entry.is_pending:
                del self._pending[sequence]

    def pending(self) -> list[Entry]:
        """What has not been answered yet, in order."""
        return list(self._pending.values())

    def redo(self) -> list[Redo]:
        """Everything that has been answered, in order."""
        return [redo for entry in self.entries for redo in entry.redo()]

    def _give_up(self) -> None:
        logger.warning(
            "environments %d to %d have been given %s commands since they were made, which is more than are kept: "
            "if their worker dies now, they cannot be restored",
            self.rows.start, self.rows.stop - 1, f"{LONGEST:,}",
        )  # fmt: skip
        self.is_full = True
        self.entries.clear()
        self._pending.clear()

    def forget(self, sequence: int) -> None:
        """A command was not sent after all."""
        if self._pending.pop(sequence, None) is not None:
            self.entries.pop()


def _rows_of(command: Command, rows: range) -> Rows:
    payload: Any = command.payload
    if payload is None:
        return rows
    if command.op in (Op.RESET, Op.RESET_EACH):
        return [reset.env_index for reset in payload]
    its: Rows = payload.rows
    return its
