"""Copies that cut the tie between an environment and what it handed out.

A worker process cuts it by pickling. In-process backends have to do it themselves, or an environment that reuses its
buffers would change results that the caller already holds, and the backends would differ.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

_NUMPY_SCALARS = [kind for kind in np.sctypeDict.values() if kind is not np.object_]
_IMMUTABLE = frozenset([int, float, bool, str, bytes, complex, type(None), type, *_NUMPY_SCALARS])


def snapshots(values: list[Any]) -> list[Any]:
    """A copy of each of these, which are of one kind as a rule."""
    return values if _IMMUTABLE.issuperset(map(type, values)) else [*map(snapshot, values)]


def snapshot(value: Any) -> Any:
    """A copy of ``value`` that shares nothing changeable with it.

    What cannot be copied (a lock, an open file) is handed on as it is.
    """
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is np.ndarray and not value.dtype.hasobject:
        return value.copy()
    if kind is dict:
        return {key: snapshot(item) for key, item in value.items()}
    if kind is list:
        return [snapshot(item) for item in value]
    if kind is tuple:
        return tuple(snapshot(item) for item in value)
    try:
        return copy.deepcopy(value)
    except Exception:
        # deepcopy runs code of the value's class, which may raise anything; sharing is the documented way out.
        return value
