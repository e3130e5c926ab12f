"""How much memory values take: about, and quickly."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from sys import getsizeof
from typing import Any

import numpy as np

_WITHOUT_PARTS = frozenset((str, bytes, int, float, bool, complex, type(None)))


def footprint(values: Collection[Any]) -> int:
    """About how many bytes these values and their parts take. What is there several times counts once."""
    return _sum_of(values, set())


def _sum_of(values: Collection[Any], known: set[int]) -> int:
    if _WITHOUT_PARTS.issuperset(map(type, values)):
        distinct = len(set(map(id, values)))
        return sum(map(getsizeof, values)) * distinct // max(1, len(values))
    return sum([_of(value, known) for value in values])


def _of(value: Any, known: set[int]) -> int:
    if id(value) in known or isinstance(value, Enum):
        return 0
    known.add(id(value))
    size = getsizeof(value)
    if isinstance(value, list | tuple | set | frozenset):
        size += _sum_of(value, known)
    elif isinstance(value, dict):
        size += _sum_of(value, known) + _sum_of(value.values(), known)
    elif isinstance(value, np.ndarray):
        size += value.nbytes if value.base is not None else 0  # which a view does not say
        size += _sum_of(value.reshape(-1).tolist(), known) if value.dtype.hasobject else 0
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        size += _of(vars(value), known)
    return size
