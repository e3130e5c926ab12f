"""Leases: observations without a copy, that stay as they are for a stated number of further steps.

With ``copy=False`` an observation is a view of the memory that the environments write into. There is room for those of
``lease + 1`` steps, so one that a step returned holds until ``lease`` further steps have been taken; after that it is
overwritten, silently. ``debug_leases`` makes that visible: observations are copies then, and one whose lease has ended is
filled with what no environment returns: not-a-number, or the most extreme number of its type.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array


def num_slots_for(copy: bool, lease: int) -> int:
    """How many steps' observations must be kept."""
    if isinstance(lease, bool) or not isinstance(lease, int | np.integer) or lease < 0:
        raise ConfigurationError(f"lease must be a whole number of steps, 0 or more, got {lease!r}")
    return 1 if copy else int(lease) + 1


class PoisonedLeases:
    """Observations that are spoilt when their lease ends."""

    def __init__(self, lease: int) -> None:
        self._lease = lease
        self._held: deque[Any] = deque()

    def hand_out(self, observation: Any) -> Any:
        """Remember a copy that the caller is given, and spoil those that are too old now."""
        self._held.append(observation)
        while len(self._held) > self._lease + 1:
            for array in arrays_of(self._held.popleft()):
                array.fill(_poison(array.dtype))
        return observation


def arrays_of(observation: Any) -> Iterator[Array]:
    """The arrays in a batch of observations."""
    if isinstance(observation, np.ndarray):
        yield observation
    elif isinstance(observation, dict):
        for part in observation.values():
            yield from arrays_of(part)
    elif isinstance(observation, tuple):
        for part in observation:
            yield from arrays_of(part)


def _poison(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "fc":
        return np.nan
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
