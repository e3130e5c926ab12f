"""Chance in a text world: a stream of numbers that its seed decides, and that can be mirrored.

Two streams of one seed, one of them mirrored, are antithetic: where one gives u, the other gives 1 - u. Averages over such
pairs vary less.
"""

from __future__ import annotations

import numpy as np


class Noise:
    """The noise of one episode."""

    def __init__(self, seed: int, *, mirrored: bool = False) -> None:
        self.seed, self.mirrored = seed, mirrored
        self._generator = np.random.default_rng(seed % 2**64)

    def uniform(self) -> float:
        """The next number, at least 0 and less than 1."""
        number = self._generator.random()
        # The generator gives multiples of 2^-53, so that this is less than 1, too.
        return 1.0 - 2.0**-53 - number if self.mirrored else number
