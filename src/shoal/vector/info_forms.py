"""Forms: infos that are alike step after step are filled in in the arena, so that they need no message.

Environments that tell something mostly tell the same few numbers in every step. The first time a worker sends them in a
message, as :class:`Columns`, and from these both sides draw up the same *form*: which columns there are, of which type, and
where each of them lies in the worker's room on the sheet, a part of the arena. What follows is filled in there if it fits::

    worker                                                       caller
    columns, in a message of their own ─────────────────────────▶ draws up a form
    draws up the same form
    fills it in, TOLD = 18, DONE = 18 ──── seen by who looks ───▶ reads it
    ...
    columns that do not fit, in a message ──────────────────────▶ draws up another

A text is filled in as the number of a word that the form knows, which was in that message. The end of an episode, and whatever
else is told now and then, goes in an ordinary message and leaves the form as it is. Halves of the environments, which may
step at the same time, have forms of their own, in a half of the room each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from shoal.vector.halves import ALL, NUM_HALVES
from shoal.vector.infos import Column, Columns
from shoal.vector.layout import Array, Rows
from shoal.vector.messages import Outcome

WORD = 8  # bytes, at multiples of which columns begin
MOST_WORDS = 64
"""That a form knows for one column. What says ever new words is not filled in."""


class Field:
    """One column of a form."""

    __slots__ = ("_dtype", "_number_of", "_shape", "name", "words", "written")

    def __init__(self, name: str, written: Array, words: list[str] | None) -> None:
        self.name, self.written = name, written
        self.words = words
        """Of texts: those that are known."""
        self._dtype, self._shape = written.dtype, written.shape
        self._number_of = None if words is None else {word: number for number, word in enumerate(words)}.__getitem__

    def fill_in(self, column: Column) -> bool:
        """Write down these values, if they fit."""
        if isinstance(column, list):
            if self._number_of is None:
                return False
            try:
                self.written[:] = [*map(self._number_of, column)]
            except KeyError:
                return False
            return True
        if self._number_of is not None or column.dtype != self._dtype or column.shape != self._shape:
            return False
        self.written[:] = column
        return True

    @property
    def kind(self) -> tuple[Any, ...]:
        """What the same column has in common in all forms."""
        return self.name, self._dtype, self._shape[1:], self.words is None

    def read(self) -> Column:
        """The values that were written, copied."""
        return self.written.copy() if self.words is None else self.texts()

    def texts(self) -> list[str]:
        """The words that were written down."""
        assert self.words is not None
        return [*map(self.words.__getitem__, self.written.tolist())]


class Form:
    """The columns of one worker."""

    def __init__(self, number: int, rows: Rows, fields: list[Field]) -> None:
        self.number = number
        """Of the command after which it was drawn up, so that nobody reads another form than was filled in."""
        self.rows, self.fields = rows, fields

    def fill_in(self, columns: Columns) -> bool:
        """Write down what environments tell, if it fits. If not, what is written down means nothing."""
        values = columns.values
        if len(values) != len(self.fields):
            return False
        for field, (name, column) in zip(self.fields, values.items(), strict=True):
            if name != field.name or not field.fill_in(column):
                return False
        return True

    def read(self) -> Columns:
        """What was filled in."""
        return Columns(self.rows, {field.name: field.read() for field in self.fields})


class Joined:
    """The forms of several workers, which have the same columns: what is filled in is read at once."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self.numbers = [form.number for form in forms]
        ends = [*accumulate(len(form.rows) for form in forms)]
        self._where = [slice(end - len(form.rows), end) for form, end in zip(forms, ends, strict=True)]
        rows = [row for form in forms for row in form.rows]
        self._rows = range(len(rows)) if rows == [*range(len(rows))] else rows
        self._columns = [*zip(*(form.fields for form in forms), strict=True)]

    def read(self) -> Columns:
        """What all have filled in."""
        values: dict[str, Column] = {}
        for fields in self._columns:
            first = fields[0]
            if first.words is not None:
                values[first.name] = [text for field in fields for text in field.texts()]
                continue
            array = np.empty((len(self._rows), *first.written.shape[1:]), first.written.dtype)
            for where, field in zip(self._where, fields, strict=True):
                array[where] = field.written
            values[first.name] = array
        return Columns(self._rows, values)


def joined(forms: Sequence[Form]) -> Joined | None:
    """The forms of several workers as one, if they have the same columns."""
    kinds = [[field.kind for field in form.fields] for form in forms]
    return Joined(forms) if kinds and all(each == kinds[0] for each in kinds) else None


def drawn_up(columns: Columns, number: int, room: Array) -> Form | None:
    """The form for what follows these columns, in this room, if there is room enough. The same on both sides."""
    fields, begin = [], 0
    for name, column in columns.values.items():
        words: list[str] | None = None
        dtype: Any = np.uint8
        shape: tuple[int, ...] = (len(columns.rows),)
        if isinstance(column, list):
            words = [*dict.fromkeys(column)]
            if len(words) > MOST_WORDS:
                return None
        else:
            dtype, shape = column.dtype, column.shape
        count = int(np.prod(shape))
        end = begin + count * np.dtype(dtype).itemsize
        if end > room.nbytes:
            return None
        fields.append(Field(name, np.frombuffer(room.data, dtype, count, begin).reshape(shape), words))
        begin = -(-end // WORD) * WORD
    return Form(number, columns.rows, fields)


def columns_of(outcome: Outcome, rows: Rows) -> Columns | None:
    """What all of these environments tell alike, if that is all there is to tell."""
    infos, *others = outcome
    if len(infos) != 1 or any(others):
        return None
    (columns,) = infos
    return columns if isinstance(columns, Columns) and columns.rows == rows else None


def room_of(sheet: Array, rows: range, half: int) -> Array:
    """The room on the sheet of a worker with these environments, for all or one half of them. It may be none."""
    room = sheet[rows.start : rows.stop].reshape(-1)
    if half == ALL:
        return room
    size = len(room) // NUM_HALVES
    return room[half * size : (half + 1) * size]
