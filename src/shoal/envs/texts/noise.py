"""Chance in a text world: streams of numbers that seeds decide. A stream of noise can be mirrored.

Two streams of one seed, one of them mirrored, are antithetic: where one gives u, the other gives 1 - u. Averages over such
pairs vary less.
"""

from __future__ import annotations

import numpy as np

_TASK, _NOISE = 1, 2
"""Part of what a stream begins with, so that a task and its noise have nothing in common, even if their seeds are equal."""


def task_generator(task_seed: int) -> np.random.Generator:
    """The random numbers from which a task is made."""
    return np.random.default_rng([_TASK, task_seed % 2**64])


class Noise:
    """The noise of one episode."""

    def __init__(self, seed: int, *, mirrored: bool = False) -> None:
        self.seed, self.mirrored = seed, mirrored
        self._generator: np.random.Generator | None = (
            None  # made when it is needed: many worlds leave nothing to chance
        )

    def uniform(self) -> float:
        """The next number, at least 0 and less than 1."""
        if self._generator is None:
            self._generator = np.random.default_rng([_NOISE, self.seed % 2**64])
        number = self._generator.random()
        # The generator gives multiples of 2^-53, so that this is at least 0, and less than 1, too.
        return 1.0 - 2.0**-53 - number if self.mirrored else number
