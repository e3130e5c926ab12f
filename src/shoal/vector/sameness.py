"""Whether two results are the same, in type and in every bit, and if not, where they differ first."""

from __future__ import annotations

from typing import Any

import numpy as np


def difference(left: Any, right: Any, path: str = "result") -> str:
    """Where two results differ first, in words; empty if they are the same in type and every bit."""
    if type(left) is not type(right):
        return f"{path}: {type(left).__name__} and {type(right).__name__}"
    if isinstance(left, np.ndarray):
        return _difference_of_arrays(left, right, path)
    if isinstance(left, dict):
        if list(left) != list(right):
            return f"{path}: keys {list(left)} and {list(right)}"
        return next(filter(None, (difference(left[key], right[key], f"{path}[{key!r}]") for key in left)), "")
    if isinstance(left, list | tuple):
        if len(left) != len(right):
            return f"{path}: {len(left)} and {len(right)} items"
        pairs = enumerate(zip(left, right, strict=True))
        return next(filter(None, (difference(a, b, f"{path}[{i}]") for i, (a, b) in pairs)), "")
    return "" if _are_equal(left, right) else f"{path}: {left!r} and {right!r}"


def _difference_of_arrays(left: Any, right: Any, path: str) -> str:
    if left.dtype != right.dtype or left.shape != right.shape:
        return f"{path}: {left.dtype}{left.shape} and {right.dtype}{right.shape}"
    if left.dtype == object:
        return difference(left.tolist(), right.tolist(), path)
    if left.tobytes() == right.tobytes():
        return ""
    if left.size <= 8:
        return f"{path}: {left} and {right}"
    as_bytes = left.reshape(left.size, 1).view(np.uint8) != right.reshape(right.size, 1).view(np.uint8)
    places = np.flatnonzero(as_bytes.any(axis=1))
    first = np.unravel_index(places[0], left.shape)
    where = ", ".join(str(int(index)) for index in first)
    return f"{path}: {len(places)} of {left.size} values differ, first [{where}]: {left[first]} and {right[first]}"


def _are_equal(left: Any, right: Any) -> bool:
    try:
        return bool(left == right) or bool(left != left and right != right)
    except Exception:  # comparing runs code of the values' class
        return repr(left) == repr(right)
