"""Digests: one number for each environment's last result, so that a replay can be compared with what happened.

A result's bytes are taken as words and summed with fixed random weights, modulo 2**64. Two results that differ have the
same digest with a probability of about 2**-63, whichever way they differ; and one product of a matrix and a vector does
it for all environments of a worker, in microseconds.

What has no fixed size (text, graphs) is digested one by one, as far as its parts are numbers, text and arrays. Infos are not.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from shoal.vector.layout import Arena, Array
from shoal.vector.observations import LooseValues

WORDS = (np.uint64, np.uint32, np.uint16, np.uint8)


class Digester:
    """Takes the digests of the environments in ``rows``, into the arena."""

    def __init__(self, arena: Arena, rows: range) -> None:
        self._first, self._arena = rows.start, arena
        self._into = arena.digests[rows.start : rows.stop]
        here = arena.slot
        self._slots = []
        for slot in range(arena.num_slots):
            arena.turn_to(slot)
            self._slots.append([_as_words(array[rows.start : rows.stop]) for array in arena.results])
        arena.turn_to(here)
        random = np.random.default_rng(20260101)
        self._weights = [
            random.integers(0, 2**63, size=words.shape[1], dtype=np.uint64) * 2 + 1 for words in self._slots[0]
        ]

    def take(self, slot: int, loose: LooseValues) -> None:
        """Digest what all environments have just written."""
        total = np.zeros(len(self._into), dtype=np.uint64)
        for words, weights in zip(self._slots[slot], self._weights, strict=True):
            total += words @ weights
        self._into[:] = total
        self._add_loose(loose)

    def take_row(self, row: int, slot: int, loose: LooseValues) -> None:
        """Digest what one environment has just written."""
        place, total = row - self._first, np.zeros(1, dtype=np.uint64)
        for words, weights in zip(self._slots[slot], self._weights, strict=True):
            total += words[place : place + 1] @ weights
        self._into[place] = total[0]
        self._add_loose(loose)

    def _add_loose(self, loose: LooseValues) -> None:
        for row, number, value in loose:
            checksum = (_checksum(value) + 1) * (2 * number + 1)
            self._arena.digests[row] ^= np.uint64(checksum % 2**64)


def _as_words(array: Array) -> Array:
    """The same bytes as words, one row for each environment, in the largest words that fit."""
    count = len(array)
    as_bytes = array.reshape(count, -1).view(np.uint8) if array.size else np.zeros((count, 0), np.uint8)
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
