"""The caller's side of forms: what workers have filled in is read when the board says so."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shoal.vector.backends.board import Board
from shoal.vector.halves import ALL
from shoal.vector.info_forms import Form, Joined, drawn_up, joined
from shoal.vector.infos import Columns, EnvInfo, by_environment
from shoal.vector.layout import Array
from shoal.vector.messages import NOTHING, Outcome


class FormReader:
    """Knows the forms of the workers, for all of their environments and for halves of them, and reads what is filled in."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._forms: dict[tuple[int, int], Form] = {}
        """By worker and half."""
        self._joined: dict[int, Joined | None] = {}
        """By half: those of all workers that have some of it, where they are alike."""

    def draw_up(self, worker: int, half: int, columns: Columns, number: int, room: Array) -> None:
        """A worker goes on with a form like these columns."""
        form = drawn_up(columns, number, room)
        assert form is not None, "the worker has drawn up the same one"
        self._forms[worker, half] = form
        self._joined.pop(half, None)

    def forget(self, worker: int) -> None:
        """Another will be in its place, who knows nothing of forms."""
        self._forms = {key: form for key, form in self._forms.items() if key[0] != worker}
        self._joined.clear()

    def close(self) -> None:
        """Let go of the arena."""
        self._forms.clear()
        self._joined.clear()

    def read(self, worker: int, sequence: int, half: int = ALL) -> Outcome:
        """What a worker that has finished this step tells about it."""
        told, number = self._board.form_filled_in(worker, half)
        if not number or told != sequence:
            return Outcome.empty()
        form = self._forms[worker, half]
        assert form.number == number, "a worker fills in the form that it has told of last"
        return Outcome([form.read()], [], [], [])

    def read_together(self, workers: Sequence[int], sequence: int, half: int = ALL) -> Outcome:
        """What came of a step that all of these workers have finished."""
        if not self._forms:
            return NOTHING
        alike = self._alike(workers, half)
        if alike is not None:
            filled_in = [self._board.form_filled_in(worker, half) for worker in workers]
            if filled_in == [(sequence, number) for number in alike.numbers]:
                return Outcome([alike.read()], [], [], [])
        infos = [columns for worker in workers for columns in self.read(worker, sequence, half).infos]
        return Outcome(infos, [], [], []) if infos else NOTHING

    def _alike(self, workers: Sequence[int], half: int) -> Joined | None:
        if half not in self._joined:
            forms = [self._forms[worker, half] for worker in workers if (worker, half) in self._forms]
            self._joined[half] = joined(forms) if len(forms) == len(workers) else None
        return self._joined[half]

    def read_alone(self, sequences: Collection[int]) -> dict[int, EnvInfo]:
        """What environments tell about these steps of halves, each for itself."""
        told: dict[int, EnvInfo] = {}
        for worker, half in self._forms:
            sequence, _ = self._board.form_filled_in(worker, half)
            if half != ALL and sequence in sequences:
                infos = by_environment(self.read(worker, sequence, half).infos)
                told.update({row: (row, info) for row, info in infos.items()})
        return told
