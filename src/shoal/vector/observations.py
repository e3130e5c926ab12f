"""Observations: from what an environment returned into the arena, and from there to the caller.

``ObservationWriter`` runs beside the environments, ``ObservationReader`` beside the caller.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from shoal.vector.layout import Arena, Array, Branch, FixedLeaf, Layout, LooseLeaf, Node, loose_leaves
from shoal.vector.loose import LooseColumn, LooseValue, LooseValues, put_in

Write = Callable[[int, Any], None]
WriteColumn = Callable[[range, Sequence[Any]], bool]
SMALL = 2048
"""Observations of so many bytes at most are gathered fastest as bytes; for larger ones the additional copy would cost more."""


NOT_SENT = (
    'What to do: return something else, or use backend="threads" (or "serial"): there all environments are in the caller\'s '
    "process, and nothing is sent."
)


class ContractViolation(Exception):
    """What an environment returned does not fit; becomes an :class:`EnvContractError` for the caller."""

    said = "broke Gymnasium's contract"


class Unsendable(ContractViolation):
    """What an environment returned fits, but cannot be sent to the caller's process."""

    said = "returned what cannot leave its worker process"


class ObservationWriter:
    """Writes one environment's observation: fixed leaves into the arena, loose ones onto :attr:`loose`."""

    def __init__(self, layout: Layout, arena: Arena) -> None:
        self._arena = arena
        self.results = arena.results
        """Everything that a step writes, in the slot that the arena is turned to now."""
        self.loose: LooseValues = []
        self.write: Write = self._compile(layout.observation)
        """``write(env_index, observation)``; raises :class:`ContractViolation` on what does not fit."""
        self._write_column = self._compile_column(layout.observation)

    def write_together(self, rows: range, observations: Sequence[Any]) -> bool:
        """Write many observations at once, which is quicker; returns whether that was possible.

        If it was not, some may have been written and some not: :meth:`write` each of them to find out why.
        """
        kept = len(self.loose)
        if self._write_column(rows, observations):
            return True
        del self.loose[kept:]
        return False

    def take_loose(self) -> LooseValues:
        """Hand over what was collected since the last time."""
        taken = self.loose[:]
        self.loose.clear()
        return taken

    def _compile(self, node: Node) -> Write:
        if isinstance(node, FixedLeaf):
            return _fixed_writer(node, self._arena.observations[node.number])
        if isinstance(node, LooseLeaf):
            return _loose_writer(node, self.loose)
        return self._branch_writer(node)

    def _compile_column(self, node: Node) -> WriteColumn:
        if isinstance(node, FixedLeaf):
            return _fixed_column_writer(node, self._arena.observations[node.number])
        if isinstance(node, LooseLeaf):
            loose, number = self.loose, node.number

            def write_loose(rows: range, values: Sequence[Any]) -> bool:
                loose.append(LooseColumn(rows, number, list(values)))
                return True

            return write_loose
        keys: tuple[Any, ...] = node.keys if node.keys is not None else tuple(range(len(node.children)))
        columns = [(key, self._compile_column(child)) for key, child in zip(keys, node.children, strict=True)]
        kinds, count = ((dict,) if node.keys is not None else (tuple, list)), len(keys)

        def write_branch(rows: range, values: Sequence[Any]) -> bool:
            if not all(isinstance(value, kinds) and len(value) == count for value in values):
                return False
            try:
                return all(write(rows, [value[key] for value in values]) for key, write in columns)
            except KeyError:
                return False

        return write_branch

    def _branch_writer(self, node: Branch) -> Write:
        keys: tuple[Any, ...] = node.keys if node.keys is not None else tuple(range(len(node.children)))
        parts = [(key, self._compile(child)) for key, child in zip(keys, node.children, strict=True)]
        is_dict, count = node.keys is not None, len(keys)

        def write(row: int, value: Any) -> None:
            if not is_dict and (not isinstance(value, tuple | list) or len(value) != count):
                raise ContractViolation(f"the observation is not a tuple of {count} parts: {shortened(value)}")
            for key, write_part in parts:
                try:
                    part = value[key]
                except (KeyError, TypeError, IndexError):
                    raise ContractViolation(
                        f"the observation has no {key!r}, which its space has: {shortened(value)}"
                    ) from None
                write_part(row, part)

        return write


def _fixed_writer(leaf: FixedLeaf, array: Array) -> Write:
    dtype, shape, path = leaf.dtype, leaf.shape, leaf.path
    ndarray = np.ndarray

    def write(row: int, value: Any) -> None:
        if type(value) is not ndarray or value.dtype is not dtype or value.shape != shape:
            value = _fit(value, dtype, shape, path)
        array[row] = value

    # Most observations without a shape are plain numbers, for which the way through an array would be slow.
    plain_types = (dtype.type, {"i": int, "u": int, "f": float, "b": bool}.get(dtype.kind))

    def write_number(row: int, value: Any) -> None:
        if type(value) in plain_types:
            try:
                array[row] = value
            except OverflowError:
                raise ContractViolation(f"{path} is {value}, which does not fit its space's {dtype}") from None
        else:
            write(row, value)

    return write if shape else write_number


def _fixed_column_writer(leaf: FixedLeaf, array: Array) -> WriteColumn:
    dtype, shape = leaf.dtype, leaf.shape
    get_shape, get_dtype = operator.attrgetter("shape"), operator.attrgetter("dtype")
    whole = array.reshape((array.shape[0] * shape[0], *shape[1:])) if shape else array
    height = shape[0] if shape else 1

    size = dtype.itemsize * int(np.prod(shape))
    as_bytes = array.reshape(-1).view(np.uint8).data if 0 < size <= SMALL else None

    def write(rows: range, values: Sequence[Any]) -> bool:
        if set(map(type, values)) != {np.ndarray} or set(map(get_shape, values)) != {shape}:
            return False
        if set(map(get_dtype, values)) != {dtype}:
            return False
        if as_bytes is not None:
            try:
                as_bytes[rows.start * size : rows.stop * size] = b"".join(values)
            except TypeError:  # an array with gaps
                pass
            else:
                return True
        np.concatenate(values, out=whole[rows.start * height : rows.stop * height])
        return True

    numbers = {dtype.type, {"i": int, "u": int, "f": float, "b": bool}.get(dtype.kind)}

    def write_numbers(rows: range, values: Sequence[Any]) -> bool:
        if not set(map(type, values)) <= numbers:
            return False
        try:
            array[rows.start : rows.stop] = values
        except OverflowError:
            return False
        return True

    return write if shape else write_numbers


def _fit(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...], path: str) -> Array:
    """``value`` as an array of exactly this shape and dtype, or a sentence that says why it is not one."""
    try:
        given = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise ContractViolation(f"{path} cannot become an array: {error} (got {shortened(value)})") from None
    if given.shape != shape:
        raise ContractViolation(f"{path} has shape {given.shape}, but its space has shape {shape}")
    if given.dtype.kind in "biuf" and dtype.kind in "biuf":
        with np.errstate(invalid="ignore"):
            converted = given.astype(dtype)
        # Rounding is what floating point is for; anything else must survive the conversion unchanged.
        if dtype.kind == "f" or np.array_equal(converted, given):
            return converted
    raise ContractViolation(
        f"{path} has dtype {given.dtype}, which does not fit its space's {dtype} (got {shortened(value)})"
    )


def _loose_writer(leaf: LooseLeaf, collected: LooseValues) -> Write:
    number = leaf.number

    def write(row: int, value: Any) -> None:
        collected.append((row, number, value))

    return write


def shortened(value: Any) -> str:
    """``value`` as text that fits into a message."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


class ObservationReader:
    """The batch of all environments' last observations, as Gymnasium arranges it."""

    def __init__(self, layout: Layout, arena: Arena, duplicate: Callable[[Array], Array] = np.ndarray.copy) -> None:
        self._arena = arena
        self._duplicate = duplicate
        self._loose: list[list[Any]] = [[None] * layout.num_envs for _ in loose_leaves(layout.observation)]
        self._arrange = self._compile(layout.observation)
        # Most observations are a single array, which is worth a shorter way.
        self._only = arena.observations[0] if isinstance(layout.observation, FixedLeaf) else None

    def update(self, loose: Iterable[LooseValue]) -> None:
        """Take in values of loose leaves."""
        put_in(self._loose, loose)

    def loose_values(self) -> LooseValues:
        """The last values of all loose leaves."""
        return [(row, number, value) for number, column in enumerate(self._loose) for row, value in enumerate(column)]

    def read(self, copy: bool, early: EarlyCopy | None = None) -> Any:
        """The batch; with ``copy=False`` its arrays are the arena itself, otherwise copies, perhaps made already."""
        if self._only is not None and copy and early is None:
            return self._duplicate(self._only)
        if not copy:
            return self._arrange(self._arena.observations, None)
        copies = [self._duplicate(array) for array in self._arena.observations] if early is None else early.arrays
        return self._arrange(copies, None)

    def read_some(self, rows: list[int]) -> Any:
        """The batch of these environments' last observations, copied."""
        return self._arrange([array[rows] for array in self._arena.observations], rows)

    def _compile(self, node: Node) -> Callable[[list[Array], list[int] | None], Any]:
        """A function that puts the arrays of the fixed leaves, and the loose values, into the space's arrangement."""
        if isinstance(node, FixedLeaf):
            number = node.number
            return lambda arrays, rows: arrays[number]
        if isinstance(node, LooseLeaf):
            values = self._loose[node.number]
            return lambda arrays, rows: tuple(values) if rows is None else tuple([values[row] for row in rows])
        parts, keys = [self._compile(child) for child in node.children], node.keys
        if keys is None:
            return lambda arrays, rows: tuple(part(arrays, rows) for part in parts)
        named = list(zip(keys, parts, strict=True))
        return lambda arrays, rows: {key: part(arrays, rows) for key, part in named}


class EarlyCopy:
    """A copy of the observations that is made piece by piece, while some environments are still at work."""

    def __init__(self, arena: Arena) -> None:
        self._sources = arena.observations
        self.arrays = [np.empty_like(source) for source in self._sources]

    def copy_rows(self, rows: range) -> None:
        """Copy what these environments have written."""
        for target, source in zip(self.arrays, self._sources, strict=True):
            target[rows.start : rows.stop] = source[rows.start : rows.stop]
