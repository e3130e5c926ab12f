"""Digests: one number for each environment's result, so that a replay can be compared with what happened.

A result's bytes are taken as words and summed with fixed random weights, modulo 2**64. Two results that differ have the
same digest with a probability of about 2**-63, whichever way they differ; and one call does it for many environments.

What has no fixed size (text, graphs) is digested one by one, as far as its parts are numbers, text and arrays. Infos are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from shoal.vector.layout import Array, Rows, as_index, as_slice
from shoal.vector.loose import LooseColumn, LooseValues

WORDS = (np.uint64, np.uint32, np.uint16, np.uint8)
MANY_WORDS = 512
"""From so many on, another function sums a row more quickly than the one that is called more quickly."""
MOST_KNOWN = 64
TEXT = 0x7E87  # so that a text has another checksum than a number that is written in the same way

Term = tuple[Callable[[Array, Array], Array], Array, Array]
"""What sums, the words of an array's rows, and their weights."""


class Digester:
    """Digests the results of environments that are written into these arrays."""

    def __init__(self, results: Sequence[Array]) -> None:
        random = np.random.default_rng(20260101)
        self._results = results
        self._weights = [
            random.integers(0, 2**63, size=_as_words(array[:1]).shape[1], dtype=np.uint64) * 2 + 1 for array in results
        ]
        self._known: dict[tuple[int, int, int], list[Term]] = {}
        """How rows are digested that have been before: the same ones are, in every step."""

    def digest(self, rows: Rows) -> Array:
        """One number for each of these rows."""
        return _summed(self._terms(rows), len(rows))

    def digest_copies(self, results: Sequence[Array], rows: Rows) -> Array:
        """The same for rows of other arrays of the same kind."""
        return _summed(self._looked_up(results, list(rows)), len(rows))

    def _terms(self, rows: Rows) -> list[Term]:
        evenly = rows if isinstance(rows, range) else as_slice(rows)
        if evenly is None:  # these have to be copied
            return self._looked_up(self._results, list(rows))
        key = evenly.start, evenly.stop, evenly.step
        terms = self._known.get(key)
        if terms is None:
            terms = self._looked_up(self._results, slice(*key))
            if len(self._known) < MOST_KNOWN:
                self._known[key] = terms
        return terms

    def _looked_up(self, results: Sequence[Array], index: slice | list[int]) -> list[Term]:
        return [
            (np.dot if len(weights) < MANY_WORDS else _einsum, _as_words(array[index]), weights)
            for array, weights in zip(results, self._weights, strict=True)
        ]


def _summed(terms: Sequence[Term], count: int) -> Array:
    total = np.zeros(count, dtype=np.uint64)
    for product, words, weights in terms:
        total += product(words, weights)
    return total


def _einsum(words: Array, weights: Array) -> Array:
    summed: Array = np.einsum("ij,j->i", words, weights)
    return summed


def add_loose(digests: Array, loose: LooseValues) -> None:
    """Let the digests depend on values without a fixed size too."""
    for entry in loose:
        if isinstance(entry, LooseColumn):
            checksums = np.array([*map(_checksum, entry.values)], np.uint64)
            digests[as_index(entry.rows)] ^= (checksums + np.uint64(1)) * np.uint64(2 * entry.number + 1)
        else:
            row, number, value = entry
            digests[row] ^= np.uint64((_checksum(value) + 1) * (2 * number + 1))


def _as_words(array: Array) -> Array:
    """The same bytes as words, one row for each environment, in the largest words that fit. No copy: rows have no gaps."""
    count = len(array)
    as_bytes = array.reshape(count, -1).view(np.uint8) if array.size else np.zeros((count, 0), np.uint8)
    size = as_bytes.shape[1]
    word = next(word for word in WORDS if size % np.dtype(word).itemsize == 0)
    return as_bytes.view(word)


def _checksum(value: Any, before: int = 0) -> int:
    """A number for anything made of numbers, text and arrays; what else it holds counts only by its type."""
    if type(value) is str:
        return crc32(value.encode("utf-8", "surrogatepass"), before ^ TEXT)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return crc32(value.tobytes(), crc32(f"{value.dtype}{value.shape}".encode(), before))
    if isinstance(value, str | bytes | int | float | bool | np.generic | None):
        return crc32(repr(value).encode(), before)
    before = crc32(type(value).__name__.encode(), before)
    if isinstance(value, dict):
        for key, part in value.items():
            before = _checksum(part, _checksum(key, before))
    elif isinstance(value, tuple | list):
        for part in value:
            before = _checksum(part, before)
    return before
