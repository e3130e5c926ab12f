"""Digests: one number for each environment's result, so that a replay can be compared with what happened.

A result's bytes are taken as words and summed with fixed random weights, modulo 2**64. Two results that differ have the
same digest with a probability of about 2**-63, whichever way they differ; and one call does it for many environments.

What has no fixed size (text, graphs) is digested one by one, as far as its parts are numbers, text and arrays. Infos are not.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.vector.layout import Array, Rows, as_index
from shoal.vector.observations import LooseValues

WORDS = (np.uint64, np.uint32, np.uint16, np.uint8)


class Digester:
    """Digests the results of environments that write into arrays like these."""

    def __init__(self, results: Sequence[Array]) -> None:
        random = np.random.default_rng(20260101)
        self._weights = [
            random.integers(0, 2**63, size=_as_words(array[:1]).shape[1], dtype=np.uint64) * 2 + 1 for array in results
        ]

    def digest(self, results: Sequence[Array], rows: Rows) -> Array:
        """One number for each of these rows."""
        index = as_index(rows)
        total = np.zeros(len(rows), dtype=np.uint64)
        for array, weights in zip(results, self._weights, strict=True):
            total += np.einsum("ij,j->i", _as_words(array[index]), weights)  # twice as fast as a product of matrices
        return total


def add_loose(digests: Array, loose: LooseValues) -> None:
    """Let the digests depend on values without a fixed size too."""
    for row, number, value in loose:
        checksum = (_checksum(value) + 1) * (2 * number + 1)
        digests[row] ^= np.uint64(checksum % 2**64)


def _as_words(array: Array) -> Array:
    """The same bytes as words, one row for each environment, in the largest words that fit."""
    count = len(array)
    as_bytes = (
        np.ascontiguousarray(array).reshape(count, -1).view(np.uint8) if array.size else np.zeros((count, 0), np.uint8)
    )
    size = as_bytes.shape[1]
    word = next(word for word in WORDS if size % np.dtype(word).itemsize == 0)
    return as_bytes.view(word)


def _checksum(value: Any, before: int = 0) -> int:
    """A number for anything made of numbers, text and arrays; what else it holds counts only by its type."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return zlib.crc32(value.tobytes(), zlib.crc32(f"{value.dtype}{value.shape}".encode(), before))
    if isinstance(value, str | bytes | int | float | bool | np.generic | None):
        return zlib.crc32(repr(value).encode(), before)
    before = zlib.crc32(type(value).__name__.encode(), before)
    if isinstance(value, dict):
        for key, part in value.items():
            before = _checksum(part, _checksum(key, before))
    elif isinstance(value, tuple | list):
        for part in value:
            before = _checksum(part, before)
    return before
