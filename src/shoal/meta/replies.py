"""What single environments said, out of what all of them said together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.vector.layout import Array


def info_of(infos: Mapping[str, Any], place: int) -> dict[str, Any]:
    """The info of the environment in this place of a batch, as it gave it; numbers are Python's."""
    return {
        name: _part_of(value, place)
        for name, value in infos.items()
        if (mask := infos.get(f"_{name}")) is not None and mask[place]
    }


def infos_of(infos: Mapping[str, Any], num_envs: int) -> list[dict[str, Any]]:
    """The infos of all environments of a batch."""
    return [info_of(infos, place) for place in range(num_envs)]


def _part_of(value: Any, place: int) -> Any:
    if isinstance(value, Mapping):
        return info_of(value, place)
    part = value[place]
    if isinstance(part, np.generic):
        return part.item()
    own: Array | Any = part.copy() if isinstance(part, np.ndarray) else part
    return own
