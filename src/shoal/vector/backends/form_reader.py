"""The caller's side of forms: what workers have filled in is read when the board says so."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.vector.backends.board import Board
from shoal.vector.info_forms import Form, Joined, columns_of, drawn_up, joined, room_of
from shoal.vector.infos import EnvInfo
from shoal.vector.layout import Array
from shoal.vector.messages import NOTHING, Outcome


class FormReader:
    """Knows the form of each worker, and reads what is filled in."""

    def __init__(self, board: Board, workers: Sequence[int]) -> None:
        self._board, self._workers = board, workers
        self._forms: dict[int, Form] = {}
        self._joined: Joined | None = None
        """All of them together, where that is possible."""

    def draw_up(self, worker: int, rows: range, sequence: int, outcome: Outcome, sheet: Array) -> None:
        """Note down how a worker will go on after a message with this about a step."""
        columns = columns_of(outcome, rows)
        if columns is None:
            return
        self.forget(worker)
        form = drawn_up(columns, sequence, room_of(sheet, rows))
        if form is not None:
            self._forms[worker] = form
            if len(self._forms) == len(self._workers):
                self._joined = joined([self._forms[each] for each in self._workers])

    def forget(self, worker: int) -> None:
        """Another will be in its place, who knows nothing of it."""
        self._forms.pop(worker, None)
        self._joined = None

    def close(self) -> None:
        """Let go of the arena."""
        self._forms.clear()
        self._joined = None

    def read(self, worker: int, sequence: int) -> list[EnvInfo]:
        """What the environments of a worker that has finished this step have told about it."""
        (number,) = self._board.forms_filled_in(sequence, [worker])
        if not number:
            return []
        form = self._forms[worker]
        assert form.number == number, "a worker fills in the form that its last message has led to"
        return [form.read()]

    def read_all(self, sequence: int) -> Outcome:
        """What came of a step that all workers have finished."""
        if not self._forms:
            return NOTHING
        if self._joined is not None and self._board.forms_filled_in(sequence, self._workers) == self._joined.numbers:
            return Outcome([self._joined.read()], [], [], [])
        return Outcome([told for worker in self._workers for told in self.read(worker, sequence)], [], [], [])
