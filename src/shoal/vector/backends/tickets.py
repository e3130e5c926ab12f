"""Tickets: the numbers of the commands that environments were given alone, and have not carried out.

A worker whose environment has carried out such a command writes its number into the arena. Where that is the number on the
environment's ticket here, it has arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from shoal.vector.layout import Array, Rows

NONE = -1


class Tickets:
    """Of all environments. True if any of them is under way."""

    def __init__(self, num_envs: int) -> None:
        self._numbers = np.full(num_envs, NONE, dtype=np.int64)
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def __getitem__(self, row: int) -> int:
        """The number on an environment's ticket."""
        return int(self._numbers[row])

    def give(self, rows: Rows, sequence: int) -> None:
        """These, which have none, are under way."""
        self._numbers[rows] = sequence
        self._count += len(rows)

    def take(self, rows: Sequence[int] | Array) -> None:
        """These have arrived."""
        self._numbers[rows] = NONE
        self._count -= len(rows)

    def under_way(self, rows: Iterable[int]) -> list[int]:
        """Those of these that are."""
        return [row for row in rows if self._numbers[row] != NONE]

    def arrived(self, carried_out: Array) -> tuple[Array, Array]:
        """Those that are back, and the numbers on their tickets, where these are the commands that were last carried out."""
        rows = (carried_out == self._numbers).nonzero()[0]
        return rows, self._numbers[rows]
