"""Loose values: what has no fixed size (texts, sequences, graphs, custom spaces), so that it has no place in the arena.

They travel beside it: observations in the outcome of a step, actions in the order for one. Where many environments are
stepped together their values are a column, which is quicker to make, to send and to take in than one entry for each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.vector.layout import Rows


class LooseColumn(NamedTuple):
    """The values of one loose leaf, of many environments."""

    rows: Rows
    number: int
    """Of the leaf."""
    values: list[Any]


LooseValue = tuple[int, int, Any] | LooseColumn
"""Environment, number of the leaf and value; or many at once."""
LooseValues = list[LooseValue]


def singly(loose: Iterable[LooseValue]) -> Iterator[tuple[int, int, Any]]:
    """The same one by one."""
    for entry in loose:
        if isinstance(entry, LooseColumn):
            for row, value in zip(entry.rows, entry.values, strict=True):
                yield row, entry.number, value
        else:
            yield entry


def put_in(known: Sequence[list[Any]], loose: Iterable[LooseValue]) -> None:
    """Write these into lists that have one value for each environment, a list for each leaf."""
    for entry in loose:
        if isinstance(entry, LooseColumn) and isinstance(entry.rows, range):
            known[entry.number][entry.rows.start : entry.rows.stop] = entry.values
            continue
        for row, number, value in singly([entry]):
            known[number][row] = value


def in_order(loose: LooseValues, rows: Rows) -> dict[int, list[Any]]:
    """For each leaf its values, one for each of these environments."""
    if all(isinstance(entry, LooseColumn) and entry.rows == rows for entry in loose):
        return {entry.number: entry.values for entry in loose if isinstance(entry, LooseColumn)}
    by_leaf: dict[int, dict[int, Any]] = {}
    for row, number, value in singly(loose):
        by_leaf.setdefault(number, {})[row] = value
    return {number: [values[row] for row in rows] for number, values in by_leaf.items()}


def of_some(loose: LooseValues, rows: Collection[int]) -> LooseValues:
    """Those of these environments."""
    chosen = set(rows)
    return [entry for entry in singly(loose) if entry[0] in chosen]


def shared_out(loose: LooseValues, shares: Mapping[int, Rows], worker_of: Sequence[int]) -> dict[int, LooseValues]:
    """For each worker those of its environments, in one pass over all of them, however many workers there are."""
    found: dict[int, LooseValues] = {worker: [] for worker in shares}
    for entry in loose:
        if isinstance(entry, LooseColumn):
            own: dict[int, list[Any]] = {worker: [] for worker in shares}
            for row, value in zip(entry.rows, entry.values, strict=True):
                own[worker_of[row]].append(value)
            for worker, its in shares.items():
                found[worker].append(LooseColumn(its, entry.number, own[worker]))
        else:
            found[worker_of[entry[0]]].append(entry)
    return found
