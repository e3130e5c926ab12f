"""Actions: from the caller's batch into the arena, and from there to each environment.

``ActionWriter`` checks a whole batch before any of it is sent, so a refused batch changes nothing. ``ActionReader`` gives
an environment the kind of action that Gymnasium's vector environments give it: a NumPy number for Discrete, a row for Box,
a dictionary for Dict, and so on; never a view into memory that the next batch will overwrite, and never rounded: a batch of
doubles for a space of single precision arrives as doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from shoal.vector.action_checks import Batch, compile_check, range_check
from shoal.vector.layout import Arena, Array, FixedLeaf, Layout, LooseLeaf, Node, Rows, as_index
from shoal.vector.loose import LooseColumn, LooseValues, in_order

Wide = tuple[int, ...]
"""The fixed leaves, by number, whose values are in double precision this time."""


class Written(NamedTuple):
    """What must be known about a batch of actions beside what is in the arena."""

    loose: LooseValues
    wide: Wide


ndarray = np.ndarray
NOTHING_MORE = Written([], ())
FEW_NUMBERS = 1024


class ActionWriter:
    """Checks batches of actions and writes them."""

    def __init__(self, space: spaces.Space[Any], layout: Layout, arena: Arena, *, ignores_ended: bool) -> None:
        self._space, self._arena = space, arena
        self._num_envs = layout.num_envs
        self._check = compile_check(layout.action, space)
        # Most actions are a single array, which is worth a shorter way.
        self._only: FixedLeaf | None = layout.action if isinstance(layout.action, FixedLeaf) else None
        if self._only is not None:
            self._only_target, self._only_in_range = arena.actions[0], range_check(space, self._only.dtype)
            self._only_shape = self._only_target.shape
        # The flags of the last step are in the arena until the next one begins.
        self._ignored = (lambda: arena.terminated | arena.truncated) if ignores_ended else None

    def write(self, actions: Any) -> Written:
        """Write a batch for all environments; raises before the first write if any part of it is wrong.

        With ``ignores_ended``, the values of environments whose episode has ended may lie outside the action space.
        """
        if self.is_plain(actions):
            self._only_target[:] = actions
            return NOTHING_MORE
        batch = Batch(self._num_envs, self._ignored)
        self._check(actions, batch)
        return self._write(batch, slice(None), range(self._num_envs))

    def is_plain(self, actions: Any) -> bool:
        """Whether these are good as they are: one array, of the right type and shape, within the space."""
        return (
            self._only is not None
            and type(actions) is np.ndarray
            and (actions.dtype is self._only.dtype or actions.dtype == self._only.dtype)
            and actions.shape == self._only_shape
            and self._only_in_range(actions)
        )

    def known_numbers(self) -> dict[int, Any] | None:
        """Every action there is, as environments are given it, where that is one of a few numbers."""
        return None if self._only is None else known_numbers(self._space, self._only)

    def writer_for(self, rows: list[int], index: slice | list[int]) -> Callable[[Any], bool]:
        """As :meth:`write_some` for the same environments again and again; returns whether nothing more must be known."""
        only, write_some = self._only, self.write_some
        if only is None:
            return lambda actions: write_some(actions, rows) is NOTHING_MORE
        dtype, shape, target, in_range = only.dtype, (len(rows), *only.shape), self._only_target, self._only_in_range

        def write(actions: Any) -> bool:
            if (
                type(actions) is ndarray
                and (actions.dtype is dtype or actions.dtype == dtype)
                and actions.shape == shape
                and in_range(actions)
            ):
                target[index] = actions
                return True
            return write_some(actions, rows) is NOTHING_MORE

        return write

    def write_some(self, actions: Any, rows: list[int]) -> Written:
        """As :meth:`write`, with one action for each of these environments."""
        if (
            self._only is not None
            and type(actions) is np.ndarray
            and (actions.dtype is self._only.dtype or actions.dtype == self._only.dtype)
            and actions.shape == (len(rows), *self._only_shape[1:])
            and self._only_in_range(actions)
        ):
            self._only_target[rows] = actions
            return NOTHING_MORE
        ignored = self._ignored
        batch = Batch(len(rows), None if ignored is None else lambda: ignored()[rows])
        self._check(actions, batch)
        return self._write(batch, rows, rows)

    def _write(self, batch: Batch, index: slice | list[int], rows: Rows) -> Written:
        wide: list[int] = []
        for number, (target, values) in enumerate(zip(self._arena.actions, batch.fixed, strict=True)):
            if values.dtype is target.dtype or values.dtype == target.dtype:
                target[index] = values
            else:
                self._arena.wide_actions[number][index] = values
                wide.append(number)
        if not wide and not batch.loose:
            return NOTHING_MORE
        return Written(
            [LooseColumn(rows, number, list(values)) for number, values in enumerate(batch.loose)], tuple(wide)
        )


def known_numbers(space: spaces.Space[Any], leaf: FixedLeaf) -> dict[int, Any] | None:
    """Every action there is, as environments are given it, where that is one of a few numbers."""
    if not isinstance(space, spaces.Discrete) or space.n > FEW_NUMBERS:
        return None
    first = int(space.start)
    return {number: leaf.dtype.type(number) for number in range(first, first + int(space.n))}


def reader_of(space: spaces.Space[Any], leaf: FixedLeaf, actions: Array) -> Callable[[], list[Any]]:
    """What gives each of some environments the action that is here for it, again and again; ``actions`` are a view."""
    numbers, places, copy = known_numbers(space, leaf), range(len(actions)), actions.copy
    if numbers is None:
        return lambda: [*map(copy().__getitem__, places)]  # environments may keep what they are given
    number_of, as_list = numbers.__getitem__, actions.tolist

    def read() -> list[Any]:
        try:
            return [*map(number_of, as_list())]
        except KeyError:  # of an environment that is reset instead, the action may be anything
            return [*map(copy().__getitem__, places)]

    return read


Read = Callable[[Rows, dict[int, list[Any]], Wide], Iterator[Any]]
"""For environments, their loose values, leaf by leaf, and what is in double precision."""


class ActionReader:
    """The actions of some environments, one by one, as the environments expect them."""

    def __init__(self, layout: Layout, arena: Arena, rows: range) -> None:
        self._arena = arena
        self._rows = rows
        self._iterate = self._compile(layout.action)
        # Most actions are a single array, which is worth a shorter way.
        is_single = isinstance(layout.action, FixedLeaf)
        self._only = arena.actions[0][rows.start : rows.stop] if is_single else None

    def read_all(self) -> Iterator[Any]:
        """One action for each of this reader's environments, all of it in the arena."""
        return self._iterate(self._rows, {}, ()) if self._only is None else iter(self._only.copy())

    def read(self, rows: Rows, loose: LooseValues, wide: Wide) -> Iterator[Any]:
        """One action per environment in ``rows``; the other two are what the writer said."""
        return self._iterate(rows, in_order(loose, rows), wide)

    def _compile(self, node: Node) -> Read:
        if isinstance(node, FixedLeaf):
            return self._fixed(node)
        if isinstance(node, LooseLeaf):
            number = node.number
            return lambda rows, loose, wide: iter(loose[number])
        parts, keys = [self._compile(child) for child in node.children], node.keys

        def read(rows: Rows, loose: dict[int, list[Any]], wide: Wide) -> Iterator[Any]:
            if not parts:
                return iter([() if keys is None else {} for _ in rows])
            columns = zip(*(part(rows, loose, wide) for part in parts), strict=True)
            return columns if keys is None else (dict(zip(keys, values, strict=True)) for values in columns)

        return read

    def _fixed(self, leaf: FixedLeaf) -> Read:
        arena, number, narrow = self._arena, leaf.number, self._arena.actions[leaf.number]

        def read(rows: Rows, loose: dict[int, list[Any]], wide: Wide) -> Iterator[Any]:
            array = arena.wide_actions[number] if number in wide else narrow
            # The copy gives the environments rows of their own, which they may keep.
            return iter(array[as_index(rows)].copy())

        return read
