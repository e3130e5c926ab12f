"""Actions: from the caller's batch into the arena, and from there to each environment.

``ActionWriter`` checks a whole batch before any of it is sent, so a refused batch changes nothing. ``ActionReader`` gives
an environment the kind of action that Gymnasium's vector environments give it: a NumPy number for Discrete, a row for Box,
a dictionary for Dict, and so on; never a view into memory that the next batch will overwrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from shoal.vector.errors import InvalidAction
from shoal.vector.layout import Arena, Array, Branch, FixedLeaf, Layout, LooseLeaf, Node, Rows, as_index
from shoal.vector.observations import LooseValues, shortened

FEW = 64  # up to so many numbers, a loop is quicker than NumPy

Check = Callable[[Any, list[Array], list[Sequence[Any]]], None]


class ActionWriter:
    """Checks batches of actions and writes them."""

    def __init__(self, space: spaces.Space[Any], layout: Layout, arena: Arena) -> None:
        self._targets = arena.actions
        self._check = _compile_check(layout.action, space, layout.num_envs)

    def write(self, actions: Any) -> LooseValues:
        """Write a batch for all environments and return its loose values; raise before the first write if any is wrong."""
        fixed: list[Array] = []
        loose: list[Sequence[Any]] = []
        self._check(actions, fixed, loose)
        for target, values in zip(self._targets, fixed, strict=True):
            target[:] = values
        if not loose:
            return []
        return [(row, number, value) for number, part in enumerate(loose) for row, value in enumerate(part)]


def _compile_check(node: Node, space: spaces.Space[Any], num_envs: int) -> Check:
    if isinstance(node, FixedLeaf):
        return _fixed_check(node, space, num_envs)
    if isinstance(node, LooseLeaf):
        return _loose_check(node, num_envs)
    return _branch_check(node, space, num_envs)


def _fixed_check(leaf: FixedLeaf, space: spaces.Space[Any], num_envs: int) -> Check:
    dtype, shape, path = leaf.dtype, (num_envs, *leaf.shape), leaf.path
    in_range = _range_check(space, dtype, num_envs)

    def check(value: Any, fixed: list[Array], loose: list[Sequence[Any]]) -> None:
        array = value if type(value) is np.ndarray else _as_array(value, path, shape)
        if array.shape != shape:
            raise InvalidAction(_wrong_shape(path, array.shape, shape))
        if array.dtype is not dtype:
            array = _converted(array, dtype, path)
        if not in_range(array):
            raise InvalidAction(
                f"{path} has values that are not in {space}: {shortened(array)}. Nothing was sent to the environments."
            )
        fixed.append(array)

    return check


def _range_check(space: spaces.Space[Any], dtype: np.dtype[Any], num_envs: int) -> Callable[[Array], bool]:
    """Whether a batch is within the space.

    Bounds of a Box are not enforced: policies routinely overshoot them and environments clip. NaN never is an action.
    """
    if isinstance(space, spaces.Discrete):
        first, count = int(space.start), int(space.n)
        if num_envs <= FEW:
            last = first + count - 1
            return lambda array: first <= min(values := array.tolist()) and max(values) <= last
        unsigned = np.dtype(f"u{dtype.itemsize}")
        # Seen as unsigned numbers, those below the start are huge: one comparison does for both ends.
        if first == 0:
            return lambda array: bool(np.maximum.reduce(array.view(unsigned), axis=None) < count)
        return lambda array: bool(np.maximum.reduce((array - first).view(unsigned), axis=None) < count)
    if isinstance(space, spaces.MultiDiscrete):
        low, high = space.start, space.start + space.nvec
        return lambda array: bool(((array >= low) & (array < high)).all())
    if isinstance(space, spaces.MultiBinary):
        return lambda array: bool(((array == 0) | (array == 1)).all())
    if dtype.kind == "f":
        return lambda array: not np.logical_or.reduce(np.isnan(array), axis=None)
    return lambda array: True


def _as_array(value: Any, path: str, shape: tuple[int, ...]) -> Array:
    if value is None or isinstance(value, str | bytes | Mapping):
        raise InvalidAction(_wrong_kind(path, value, shape))
    if isinstance(value, Iterable) and not hasattr(value, "__array__"):
        value = list(value)
    try:
        return np.asarray(value)
    except (ValueError, TypeError):
        raise InvalidAction(_wrong_kind(path, value, shape)) from None


def _converted(array: Array, dtype: np.dtype[Any], path: str) -> Array:
    if array.dtype == dtype:
        return array
    if array.dtype.kind in "biuf" and not (array.dtype.kind == "f" and dtype.kind in "iub"):
        converted = array.astype(dtype)
        if dtype.kind == "f" or np.array_equal(converted, array):
            return converted
    raise InvalidAction(
        f"{path} has dtype {array.dtype}, which cannot become the action space's {dtype}. "
        "Nothing was sent to the environments."
    )


def _wrong_shape(path: str, got: tuple[int, ...], expected: tuple[int, ...]) -> str:
    sentence = f"{path} has shape {got}, but this batch needs {expected}"
    if got[:1] != expected[:1]:
        sentence += f": one action for each of the {expected[0]} environments"
    return f"{sentence}. Nothing was sent to the environments."


def _wrong_kind(path: str, value: Any, expected: tuple[int, ...]) -> str:
    return (
        f"{path} cannot become an array of shape {expected}: got {shortened(value)}. "
        "Nothing was sent to the environments."
    )


def _loose_check(leaf: LooseLeaf, num_envs: int) -> Check:
    path = leaf.path

    def check(value: Any, fixed: list[Array], loose: list[Sequence[Any]]) -> None:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise InvalidAction(
                f"{path} must be a sequence with one action for each of the {num_envs} environments, "
                f"got {shortened(value)}. Nothing was sent to the environments."
            )
        values = list(value)
        if len(values) != num_envs:
            raise InvalidAction(
                f"{path} has {len(values)} actions for {num_envs} environments. Nothing was sent to the environments."
            )
        loose.append(values)

    return check


def _branch_check(node: Branch, space: spaces.Space[Any], num_envs: int) -> Check:
    keys: tuple[Any, ...] = node.keys if node.keys is not None else tuple(range(len(node.children)))
    subspaces: Any = space
    children = zip(keys, node.children, strict=True)
    parts = [(key, _compile_check(child, subspaces[key], num_envs)) for key, child in children]
    is_dict = node.keys is not None
    expected = f"a dictionary with the keys {list(keys)}" if is_dict else f"a tuple of {len(keys)} batches"

    def check(value: Any, fixed: list[Array], loose: list[Sequence[Any]]) -> None:
        fits = isinstance(value, Mapping) if is_dict else isinstance(value, tuple | list) and len(value) == len(keys)
        if not fits:
            raise InvalidAction(
                f"the batch of actions must be {expected}, got {shortened(value)}. "
                "Nothing was sent to the environments."
            )
        for key, check_part in parts:
            if is_dict and key not in value:
                raise InvalidAction(
                    f"the batch of actions has no {key!r}; it must be {expected}. Nothing was sent to the environments."
                )
            check_part(value[key], fixed, loose)

    return check


class ActionReader:
    """The actions of some environments, one by one, as the environments expect them."""

    def __init__(self, layout: Layout, arena: Arena) -> None:
        self._arena = arena
        self._iterate = self._compile(layout.action)

    def read(self, rows: Rows, loose: LooseValues) -> Iterator[Any]:
        """One action per environment in ``rows``; ``loose`` holds the values that are not in the arena."""
        by_place = {(row, number): value for row, number, value in loose} if loose else {}
        return self._iterate(rows, by_place)

    def _compile(self, node: Node) -> Callable[[Rows, dict[tuple[int, int], Any]], Iterator[Any]]:
        if isinstance(node, FixedLeaf):
            array = self._arena.actions[node.number]
            # The copy gives the environments rows of their own, which they may keep.
            return lambda rows, loose: iter(array[as_index(rows)].copy())
        if isinstance(node, LooseLeaf):
            number = node.number
            return lambda rows, loose: (loose[row, number] for row in rows)
        parts = [self._compile(child) for child in node.children]
        keys = node.keys
        if keys is None:
            if not parts:
                return lambda rows, loose: (() for _ in rows)
            return lambda rows, loose: zip(*(part(rows, loose) for part in parts), strict=True)
        return lambda rows, loose: (
            dict(zip(keys, values, strict=True))
            for values in (zip(*(part(rows, loose) for part in parts), strict=True) if parts else (() for _ in rows))
        )
