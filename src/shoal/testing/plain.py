"""Results in a form that another process can read and compare: plain values, whatever an environment returns.

Two processes cannot share objects, and many objects equal only themselves. So what an environment returned is boiled down
to numbers, texts, arrays, dictionaries, lists and tuples, and anything else to the name of its class and its public parts.
What cannot be looked into is known by its class alone: a difference may be missed there, but none is invented.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.vector.sameness import difference

_PLAIN = frozenset([int, float, bool, str, bytes, complex, type(None)])
MAX_DEPTH = 30
MAX_REPR = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Thing:
    """An object that is nothing plain: the name of its class, and what is inside, as far as that is known."""

    kind: str
    inside: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing) and self.kind == other.kind and not difference(self.inside, other.inside)

    def __hash__(self) -> int:
        return hash(self.kind)

    def __repr__(self) -> str:
        return self.kind if self.inside is None else f"{self.kind}({self.inside!r})"


def plain(value: Any, depth: int = 0) -> Any:
    """``value``, boiled down. Shares nothing changeable with it, and boiling it down again changes nothing."""
    kind = type(value)
    if kind in _PLAIN or kind is Thing:
        return value
    if isinstance(value, np.ndarray):
        return _plain_array(value, depth)
    if isinstance(value, np.generic):
        return value
    if depth > MAX_DEPTH:
        return Thing(_name_of(kind), None)
    if isinstance(value, enum.Enum):
        return Thing(_name_of(kind), value.name)
    if isinstance(value, Mapping):
        return {plain_key(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, tuple):
        return tuple([plain(item, depth + 1) for item in value])
    if isinstance(value, set | frozenset):
        # In an order that depends on the elements alone: the order of a set is nothing that an environment returned.
        return Thing(_name_of(kind), sorted([plain(item, depth + 1) for item in value], key=repr))
    return Thing(_name_of(kind), _inside(value, depth))


def plain_key(key: Any) -> Any:
    """A key of a dictionary, boiled down; it must stay hashable."""
    return key if type(key) in _PLAIN else f"{_name_of(type(key))}({_shown(key)})"


def _plain_array(array: Any, depth: int) -> Any:
    if not array.dtype.hasobject:
        return np.array(array, copy=True, subok=False)
    boiled = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        boiled[place] = plain(array[place], depth + 1)
    return boiled


def _inside(value: Any, depth: int) -> Any:
    try:
        if isinstance(value, type) or callable(value):
            return getattr(value, "__qualname__", None)
        if isinstance(value, int | float | str | bytes):  # a class of its own that is one of these
            return repr(value)
        if hasattr(value, "__array__"):
            return plain(np.asarray(value), depth + 1)
        if dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
        else:
            names = sorted(vars(value)) if hasattr(value, "__dict__") else []
        public = [name for name in names if not name.startswith("_")]
        if public:
            return {name: plain(getattr(value, name), depth + 1) for name in public}
        return _shown(value) if not names else None
    except Exception:  # looking into an object runs code of its class
        return None


def _shown(value: Any) -> str | None:
    """What it looks like, unless that holds an address, which is never the same twice."""
    text = repr(value)
    return None if " at 0x" in text or len(text) > MAX_REPR else text


def _name_of(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
