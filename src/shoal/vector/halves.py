"""Halves: every second environment, and all the others, as those see them who carry a step of one half back and forth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoal.vector.messages import NOTHING, Outcome, Pace, Steps, rows_of_part

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
    is_together: bool = True
    """Whether it was asked for as a half, and not environment by environment after all."""
    has_landed: bool = False
    """Whether all of its environments are back from it ..."""
    outcome: Outcome = NOTHING
    """... and with what."""


def steps_of_half(number: int, rows: range, group_size: int) -> Steps:
    """What a worker that has these environments is asked for, when a half is to step."""
    return Steps(rows_of_part(rows, number, NUM_HALVES, group_size), [], (), Pace.TOGETHER)


def halves_of(shares: Sequence[range], group_size: int) -> list[Half]:
    """The halves of environments of which each worker has a share."""
    halves = []
    for number in range(NUM_HALVES):
        asked = {worker: steps_of_half(number, share, group_size) for worker, share in enumerate(shares)}
        steps = {worker: its for worker, its in asked.items() if its.rows}
        rows = [row for its in steps.values() for row in its.rows]
        index = slice(number, None, NUM_HALVES) if group_size == 1 else rows
        halves.append(Half(number, rows, frozenset(rows), index, steps, [*steps]))
    return halves
