"""Checking a batch of actions, whole, before any of it is sent.

The check for an action space is put together once, from its leaves, and then called for every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from shoal.vector.errors import InvalidAction, InvalidActionType
from shoal.vector.layout import Array, Branch, FixedLeaf, LooseLeaf, Node
from shoal.vector.observations import shortened

FEW = 64  # up to so many numbers, a loop is quicker than NumPy
UNCHANGED = "Nothing was sent to the environments."


class Batch:
    """A batch of actions while it is being checked."""

    __slots__ = ("count", "fixed", "ignored", "loose")

    def __init__(self, count: int, ignored: Callable[[], Array] | None) -> None:
        self.count = count
        """How many actions there must be."""
        self.ignored = ignored
        """Tells which environments will be reset instead of stepped: their actions need not make sense."""
        self.fixed: list[Array] = []
        """The values of every fixed leaf, in an acceptable type."""
        self.loose: list[Sequence[Any]] = []
        """The values of every loose leaf."""


Check = Callable[[Any, Batch], None]


def compile_check(node: Node, space: spaces.Space[Any]) -> Check:
    """A function that adds a batch's parts to a :class:`Batch`, or raises :class:`InvalidAction`."""
    if isinstance(node, FixedLeaf):
        return _fixed_check(node, space)
    if isinstance(node, LooseLeaf):
        return _loose_check(node)
    return _branch_check(node, space)


def _fixed_check(leaf: FixedLeaf, space: spaces.Space[Any]) -> Check:
    dtype, single_shape, path = leaf.dtype, leaf.shape, leaf.path
    in_range = range_check(space, dtype)

    def check(value: Any, batch: Batch) -> None:
        shape = (batch.count, *single_shape)
        array = value if type(value) is np.ndarray else _as_array(value, path, shape)
        if array.shape != shape:
            raise _wrong_shape(path, array.shape, shape)
        if array.dtype is not dtype:
            array = _converted(array, dtype, path)
        if not in_range(array):
            acted = array if batch.ignored is None else array[~batch.ignored()]
            if len(acted) and not in_range(acted):
                raise InvalidAction(f"{path} has values that are not in {space}: {shortened(array)}. {UNCHANGED}")
        batch.fixed.append(array)

    return check


def range_check(space: spaces.Space[Any], dtype: np.dtype[Any]) -> Callable[[Array], bool]:
    """Whether a batch is within the space.

    Bounds of a Box are not enforced: policies routinely overshoot them and environments clip. NaN never is an action.
    """
    if isinstance(space, spaces.Discrete):
        return _discrete_check(int(space.start), int(space.n), dtype)
    if isinstance(space, spaces.MultiDiscrete):
        low, high = space.start, space.start + space.nvec
        return lambda array: bool(((array >= low) & (array < high)).all())
    if isinstance(space, spaces.MultiBinary):
        return lambda array: bool(((array == 0) | (array == 1)).all())
    if dtype.kind == "f":
        return lambda array: not np.logical_or.reduce(np.isnan(array), axis=None)
    return lambda array: True


def _discrete_check(first: int, count: int, dtype: np.dtype[Any]) -> Callable[[Array], bool]:
    last, unsigned = first + count - 1, np.dtype(f"u{dtype.itemsize}")

    def in_range(array: Array) -> bool:
        if len(array) <= FEW:
            values = array.tolist()
            return bool(first <= min(values) and max(values) <= last)
        # Seen as unsigned numbers, those below the start are huge: one comparison does for both ends.
        shifted = array if first == 0 else array - first
        return bool(np.maximum.reduce(shifted.view(unsigned)) < count)

    return in_range


def _as_array(value: Any, path: str, shape: tuple[int, ...]) -> Array:
    if value is None or isinstance(value, str | bytes | Mapping):
        raise _wrong_kind(path, value, shape)
    if isinstance(value, Iterable) and not hasattr(value, "__array__"):
        value = list(value)
    try:
        return np.asarray(value)
    except (ValueError, TypeError):
        raise _wrong_kind(path, value, shape) from None


def _converted(array: Array, dtype: np.dtype[Any], path: str) -> Array:
    """The array in the leaf's type, or, where that would round it, in double precision."""
    if array.dtype == dtype:
        return array
    if array.dtype.kind in "biuf" and not (array.dtype.kind == "f" and dtype.kind in "iub"):
        if array.dtype.kind == "f" and array.dtype.itemsize > dtype.itemsize:
            return array.astype(np.float64, copy=False)
        converted = array.astype(dtype)
        if dtype.kind == "f" or np.array_equal(converted, array):
            return converted
    raise InvalidAction(f"{path} has dtype {array.dtype}, which cannot become the action space's {dtype}. {UNCHANGED}")


def _wrong_shape(path: str, got: tuple[int, ...], expected: tuple[int, ...]) -> InvalidAction:
    sentence = f"{path} has shape {got}, but this batch needs {expected}"
    if got[:1] != expected[:1]:
        sentence += f": one action for each of the {expected[0]} environments"
    return (InvalidAction if got else InvalidActionType)(f"{sentence}. {UNCHANGED}")


def _wrong_kind(path: str, value: Any, expected: tuple[int, ...]) -> InvalidActionType:
    return InvalidActionType(f"{path} cannot become an array of shape {expected}: got {shortened(value)}. {UNCHANGED}")


def _loose_check(leaf: LooseLeaf) -> Check:
    path = leaf.path

    def check(value: Any, batch: Batch) -> None:
        num_envs = batch.count
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise InvalidActionType(
                f"{path} must be a sequence with one action for each of the {num_envs} environments, "
                f"got {shortened(value)}. {UNCHANGED}"
            )
        values = list(value)
        if len(values) != num_envs:
            raise InvalidAction(f"{path} has {len(values)} actions for {num_envs} environments. {UNCHANGED}")
        batch.loose.append(values)

    return check


def _branch_check(node: Branch, space: spaces.Space[Any]) -> Check:
    keys: tuple[Any, ...] = node.keys if node.keys is not None else tuple(range(len(node.children)))
    subspaces: Any = space
    children = zip(keys, node.children, strict=True)
    parts = [(key, compile_check(child, subspaces[key])) for key, child in children]
    is_dict = node.keys is not None
    expected = f"a dictionary with the keys {list(keys)}" if is_dict else f"a tuple of {len(keys)} batches"

    def check(value: Any, batch: Batch) -> None:
        fits = isinstance(value, Mapping) if is_dict else isinstance(value, tuple | list) and len(value) == len(keys)
        if not fits:
            raise InvalidActionType(f"the batch of actions must be {expected}, got {shortened(value)}. {UNCHANGED}")
        for key, check_part in parts:
            if is_dict and key not in value:
                raise InvalidAction(f"the batch of actions has no {key!r}; it must be {expected}. {UNCHANGED}")
            check_part(value[key], batch)

    return check
