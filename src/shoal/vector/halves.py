"""Halves: every second environment, and all the others, as those see them who carry a step of one half back and forth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoal.vector.messages import Pace, Steps, rows_of_part

NUM_HALVES = 2
ALL = -1
"""Not a half, but all environments."""


@dataclass(slots=True, eq=False)
class Half:
    """One of them. All that is the same in every step is here, so that nobody has to put it together again."""

    number: int
    rows: list[int]
    members: frozenset[int]
    """The same as a set."""
    index: slice | list[int]
    """What selects its environments from an array of all."""
    steps: Mapping[int, Steps]
    """What workers are asked for: a step of those of its environments that they have."""
    workers: list[int]
    """Those that have some."""
    sequence: int = 0
    """Of the last command."""
    has_landed: bool = False
    """Whether all of its environments are back from it."""


def halves_of(shares: Sequence[range], group_size: int) -> list[Half]:
    """The halves of environments of which each worker has a share."""
    halves = []
    for number in range(NUM_HALVES):
        its = {worker: rows_of_part(share, number, NUM_HALVES, group_size) for worker, share in enumerate(shares)}
        steps = {worker: Steps(rows, [], (), Pace.TOGETHER) for worker, rows in its.items() if rows}
        rows = [row for worker in steps for row in its[worker]]
        index = slice(number, None, NUM_HALVES) if group_size == 1 else rows
        halves.append(Half(number, rows, frozenset(rows), index, steps, [*steps]))
    return halves
