"""Random numbers of a row: a stream of its own, which its seed decides and nothing else.

The n-th number of a stream is computed from the seed and from n alone (SplitMix64). So a row draws the same numbers whoever
else is in its batch, and bringing it back takes two numbers.
"""

from __future__ import annotations

import hashlib
from typing import Any

from shoal.envs.compiling import is_compiling, rule

STREAM = (("key", "i8"), ("drawn", "i8"))
"""The fields of a row that make its stream."""

_GAMMA = -7046029254386353131  # the golden ratio, as 64 bits


def _as_64_bits(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def _unchanged(number: int) -> int:
    return number


# Compiled numbers have 64 bits by themselves.
wrapped = rule(_unchanged if is_compiling() else _as_64_bits)


@rule
def mixed(number: int) -> int:
    """64 bits, of which every one depends on every bit of ``number``."""
    number = wrapped((number ^ ((number >> 30) & 0x3FFFFFFFF)) * -4658895280553007687)
    number = wrapped((number ^ ((number >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685)
    return number ^ ((number >> 31) & 0x1FFFFFFFF)


@rule
def uniform(row: Any) -> float:
    """The next number of a row's stream, at least 0 and less than 1."""
    row.drawn += 1
    bits = mixed(wrapped(int(row.key) + wrapped(int(row.drawn) * _GAMMA)))
    return ((bits >> 11) & 0x1FFFFFFFFFFFFF) * (1.0 / 9007199254740992.0)


@rule
def below(row: Any, number: int) -> int:
    """A whole number from 0 on, less than ``number``, each as likely as the others."""
    return int(uniform(row) * number)


def key_of(seed: int) -> int:
    """What the stream of this seed is computed from. Any whole number is a seed."""
    return int.from_bytes(hashlib.blake2b(str(seed).encode(), digest_size=8).digest(), "little", signed=True)
