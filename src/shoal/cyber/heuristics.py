"""Simple ways to defend, for comparison: what the challenge calls reactive agents, for many games at once.

Each takes the official observations of some games, (games, 52), and returns an official action for each.
"""

from __future__ import annotations

import numpy as np

from shoal.vector.layout import Array

NUM_HOSTS, USER0 = 13, 8
FIRST_REMOVE, FIRST_RESTORE = 15, 132


def sleeping(observations: Array) -> Array:
    """Do nothing."""
    return np.zeros(len(observations), np.int64)


def removing(observations: Array) -> Array:
    """Remove Red from the first host that seems to have been broken into by a user."""
    bits = _bits(observations)
    return _first((bits[..., 2] == 0) & (bits[..., 3] == 1), FIRST_REMOVE)


def restoring(observations: Array) -> Array:
    """Restore the first host that seems to be compromised."""
    return _first(_bits(observations)[..., 3] == 1, FIRST_RESTORE)


def _bits(observations: Array) -> Array:
    return observations[:, : 4 * NUM_HOSTS].reshape(len(observations), NUM_HOSTS, 4)


def _first(is_suspect: Array, first_action: int) -> Array:
    """The action for the first suspect host; User0 is lost anyway."""
    is_suspect = is_suspect.copy()
    is_suspect[:, USER0] = False
    return np.where(is_suspect.any(axis=1), first_action + is_suspect.argmax(axis=1), 0)
