"""What workers have told in shared memory, on forms or in letters, is read when the board says so."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shoal.vector.backends.board import Board
from shoal.vector.backends.mailboxes import decoded
from shoal.vector.failures import Failure
from shoal.vector.halves import ALL, NUM_HALVES
from shoal.vector.info_forms import Form, Joined, drawn_up, joined
from shoal.vector.infos import Columns, by_environment
from shoal.vector.layout import Array
from shoal.vector.loose import singly
from shoal.vector.messages import NOTHING, Outcome, apart
from shoal.vector.observations import NOT_SENT, Unsendable

NO_LETTER = -1, NOTHING


class ToldReader:
    """Knows the forms of the workers, for all of their environments and for halves of them, and opens their letters."""

    def __init__(self, board: Board, rows: Sequence[range]) -> None:
        self._board = board
        self._rows = rows
        """Every worker's environments."""
        self._forms: dict[tuple[int, int], Form] = {}
        """By worker and half."""
        self._joined: dict[int, Joined | None] = {}
        """By half: those of all workers that have some of it, where they are alike."""
        self._letters: dict[tuple[int, int], tuple[int, Outcome]] = {}
        """What was in the last letter of a worker, about all or one half of its environments, and about which step."""
        self._arrived: list[tuple[int, int, Outcome]] = []
        """What was in letters about environments that were asked alone: environment, number of the command, what it told."""

    def draw_up(self, worker: int, half: int, columns: Columns, number: int, room: Array) -> None:
        """A worker goes on with a form like these columns."""
        form = drawn_up(columns, number, room)
        assert form is not None, "the worker has drawn up the same one"
        self._forms[worker, half] = form
        self._joined.pop(half, None)

    def forget(self, worker: int) -> None:
        """Another will be in its place, who knows nothing of forms, and has written nothing."""
        self._forms = {key: form for key, form in self._forms.items() if key[0] != worker}
        self._letters = {key: letter for key, letter in self._letters.items() if key[0] != worker}
        self._joined.clear()

    def close(self) -> None:
        """Let go of the arena."""
        self._forms.clear()
        self._joined.clear()
        self._letters.clear()
        self._arrived.clear()

    def read(self, worker: int, sequence: int, half: int = ALL) -> Outcome:
        """What a worker that has finished this step tells about it."""
        told, number = self._board.form_filled_in(worker, half)
        if number and told == sequence:
            form = self._forms[worker, half]
            assert form.number == number, "a worker fills in the form that it has told of last"
            return Outcome([form.read()], [], [], [])
        self._open_letters(worker)
        written_about, outcome = self._letters.get((worker, half), NO_LETTER)
        if written_about != sequence:
            return Outcome.empty()
        del self._letters[worker, half]
        return outcome

    def read_together(self, workers: Sequence[int], sequence: int, half: int = ALL) -> Outcome:
        """What came of a step that all of these workers have finished."""
        if not self._forms and not self._letters and not self._board.has_letters(workers):
            return NOTHING
        alike = self._alike(workers, half)
        if alike is not None:
            filled_in = [self._board.form_filled_in(worker, half) for worker in workers]
            if filled_in == [(sequence, number) for number in alike.numbers]:
                return Outcome([alike.read()], [], [], [])
        together = Outcome.empty()
        for worker in workers:
            infos, loose, failures, _ = self.read(worker, sequence, half)
            together.infos.extend(infos)
            together.loose.extend(loose)
            together.failures.extend(failures)
        return together if any(together) else NOTHING

    def _alike(self, workers: Sequence[int], half: int) -> Joined | None:
        if half not in self._joined:
            forms = [self._forms[worker, half] for worker in workers if (worker, half) in self._forms]
            self._joined[half] = joined(forms) if len(forms) == len(workers) else None
        return self._joined[half]

    def read_alone(self, sequences: Collection[int]) -> dict[int, Outcome]:
        """What environments tell about these steps of halves, each for itself. It may be asked again."""
        told: dict[int, Outcome] = {}
        for worker, half in self._forms:
            sequence, _ = self._board.form_filled_in(worker, half)
            if half != ALL and sequence in sequences:
                infos = by_environment(self.read(worker, sequence, half).infos)
                told.update({row: Outcome([(row, info)], [], [], []) for row, info in infos.items()})
        for worker in range(len(self._rows)):
            self._open_letters(worker)
        for (_, half), (sequence, outcome) in self._letters.items():
            if half != ALL and sequence in sequences:
                told.update(_by_environment(outcome))
        return told

    def read_arrived(self) -> list[tuple[int, int, Outcome]]:
        """What has come, since the last time, of environments that were asked alone."""
        for worker in range(len(self._rows)):
            self._open_letters(worker)
        arrived, self._arrived = self._arrived, []
        return arrived

    def _open_letters(self, worker: int) -> None:
        for sequence, about, data in self._board.letters(worker):
            try:
                outcome = decoded(data)
            except Exception as error:
                rows = range(about, about + 1) if about >= 0 else self._rows[worker]
                outcome = unreadable(error, rows, "step")
            if about >= 0:
                self._arrived.append((about, sequence, outcome))
            else:
                self._letters[worker, about + NUM_HALVES] = sequence, outcome


def unreadable(error: Exception, rows: range, phase: str) -> Outcome:
    """What these environments have told could be pickled by their worker, but this process cannot read it.

    It may be an exception that is made with other arguments than it keeps, or a class that only the worker can import.
    """
    who = "it" if len(rows) == 1 else f"it, or another of environments {rows.start} to {rows.stop - 1},"
    reason = f"{who} has told something that can be pickled and not be read again: {type(error).__name__}: {error}"
    failure = Failure.of(Unsendable(f"{reason}\n  {NOT_SENT}"), env_index=rows.start, phase=phase)
    return Outcome([], [], [failure], [])


def _by_environment(outcome: Outcome) -> dict[int, Outcome]:
    """What was told together, of each environment that has told something."""
    rows = [*by_environment(outcome.infos), *(row for row, _, _ in singly(outcome.loose))]
    return apart(outcome, [*dict.fromkeys([*rows, *(failure.env_index for failure in outcome.failures)])])
