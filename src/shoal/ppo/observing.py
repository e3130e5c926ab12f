"""Observations as the network takes them: one row of numbers for each environment, or one picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

SMALLEST_IMAGE = 8
Encode = Callable[[Any], Array]


class Encoder:
    """Turns batches of observations of a space into arrays of ``shape`` rows."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.is_image = is_image(space)
        if self.is_image:
            assert isinstance(space, spaces.Box)
            self.shape: tuple[int, ...] = _channels_first(space.shape)
            self.dtype: np.dtype[Any] = np.dtype(space.dtype)
            self._encode = _image_encoder(space.shape)
        else:
            size, self._encode = _vector_encoder(space, "the observation space")
            self.shape, self.dtype = (size,), np.dtype(np.float32)

    def __call__(self, observations: Any) -> Array:
        """A batch of observations, as rows."""
        return self._encode(observations)


def is_image(space: spaces.Space[Any]) -> bool:
    """Whether a convolution makes sense: three dimensions, none of the two that are seen very short."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        return False
    _, height, width = _channels_first(space.shape)
    return min(height, width) >= SMALLEST_IMAGE


def _channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    # Colours or frames are few; they come last in most environments.
    return shape if shape[0] < shape[2] else (shape[2], shape[0], shape[1])


def _image_encoder(shape: tuple[int, ...]) -> Encode:
    if shape[0] < shape[2]:
        return np.asarray
    return lambda batch: np.ascontiguousarray(np.moveaxis(batch, -1, 1))


def _vector_encoder(space: spaces.Space[Any], name: str) -> tuple[int, Encode]:
    """How many numbers a single observation is, and what makes them of a batch."""
    if isinstance(space, spaces.Box):
        size = int(np.prod(space.shape))
        return size, lambda batch: np.asarray(batch, np.float32).reshape(len(batch), size)
    if isinstance(space, spaces.Discrete):
        count, start = int(space.n), int(space.start)
        identity = np.eye(count, dtype=np.float32)
        return count, lambda batch: identity[np.asarray(batch) - start]
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return size, lambda batch: np.asarray(batch, np.float32).reshape(len(batch), size)
    if isinstance(space, spaces.MultiDiscrete):
        counts, starts = space.nvec.reshape(-1), space.start.reshape(-1)
        identities = [np.eye(int(count), dtype=np.float32) for count in counts]

        def one_hots(batch: Any) -> Array:
            values = np.asarray(batch).reshape(len(batch), -1) - starts
            return np.concatenate([table[values[:, k]] for k, table in enumerate(identities)], axis=1)

        return int(counts.sum()), one_hots
    if isinstance(space, spaces.Dict | spaces.Tuple):
        children = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        parts = [(key, *_vector_encoder(child, f"{name}[{key!r}]")) for key, child in children]

        def concatenated(batch: Any) -> Array:
            return np.concatenate([encode(batch[key]) for key, _, encode in parts], axis=1)

        return sum(size for _, size, _ in parts), concatenated
    raise ConfigurationError(
        f"{name} is {space}, of which a network cannot be made: use Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or "
        "Tuple of these, or put a wrapper around the environment that turns it into one"
    )
