"""Why a value is not in a space, naming the part that is to blame."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from shoal.vector.observations import shortened


def why_outside(space: spaces.Space[Any], value: Any, path: str = "observation") -> str:
    """Why ``value`` is not in ``space``; empty if it is."""
    if _contains(space, value):
        return ""
    if isinstance(space, spaces.Dict) and isinstance(value, Mapping):
        return _why_not_in_dict(space, value, path)
    if isinstance(space, spaces.Tuple) and isinstance(value, tuple) and len(value) == len(space.spaces):
        parts = enumerate(zip(space.spaces, value, strict=True))
        return next(filter(None, (why_outside(part, item, f"{path}[{i}]") for i, (part, item) in parts)), "")
    if isinstance(space, spaces.Box):
        return _why_not_in_box(space, value, path)
    return f"{path} is {shortened(value)}, which is not in {space}"


def _contains(space: spaces.Space[Any], value: Any) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bool(space.contains(value))
    except Exception:  # some spaces raise at what they do not know
        return False


def _why_not_in_dict(space: spaces.Dict, value: Mapping[Any, Any], path: str) -> str:
    missing = [key for key in space.spaces if key not in value]
    if missing:
        return f"{path} has no {missing[0]!r}, which its space has"
    foreign = [key for key in value if key not in space.spaces]
    if foreign:
        return f"{path} has {foreign[0]!r}, which its space has not"
    for key, part in space.spaces.items():
        if why := why_outside(part, value[key], f"{path}[{key!r}]"):
            return why
    return f"{path} is {shortened(value)}, which is not in {space}"


def _why_not_in_box(space: spaces.Box, value: Any, path: str) -> str:
    try:
        array = np.asarray(value)
    except Exception:
        return f"{path} is {shortened(value)}, which is no array"
    if array.shape != space.shape:
        return f"{path} has shape {array.shape}, but its space has shape {space.shape}"
    if not np.can_cast(array.dtype, space.dtype):
        return f"{path} has dtype {array.dtype}, but its space has dtype {space.dtype}"
    is_outside = ~((array >= space.low) & (array <= space.high))
    if not is_outside.any():
        return f"{path} is {shortened(value)}, which is not in {space}"
    place = tuple(int(index) for index in np.argwhere(is_outside)[0])
    where = f"{path}[{', '.join(map(str, place))}]" if place else path
    return f"{where} is {array[place]}, outside {space.low[place]} to {space.high[place]}"
