"""Observations as the network takes them: one row of numbers for each environment, or one picture.

A picture is a Box of three dimensions of which two are not very short, or of two if it holds shades of grey. It keeps its
bytes, if it has any: they are small, and the network scales them. Other pictures become float32, between 0 and 1 where their
bounds tell how; what is between -1 and 1 already stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from shoal.vector.caller import warn_caller
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

SMALLEST_IMAGE = 8
MANY_SHADES = 128
"""Bytes that take fewer values are the cells of a board, say, and no shades of grey."""
WIDEST = float(2**24)
"""Bounds that are farther apart say what a type can hold, and not what is to be seen."""
Encode = Callable[[Any], Array]


class Encoder:
    """Turns batches of observations of a space into arrays of ``shape`` rows."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.is_image = is_image(space)
        if self.is_image:
            assert isinstance(space, spaces.Box)
            self.shape: tuple[int, ...] = _channels_first(space.shape)
            self.dtype: np.dtype[Any] = np.dtype(np.uint8 if space.dtype == np.uint8 else np.float32)
            self._encode = _image_encoder(space)
        else:
            pictures: list[str] = []
            size, self._encode = _vector_encoder(space, "the observation space", pictures)
            self.shape, self.dtype = (size,), np.dtype(np.float32)
            if pictures:
                warn_caller(
                    f"{', '.join(pictures)}: what looks like a picture here is taken as a row of numbers, scaled to 0..1 "
                    "where its bounds tell how. Only an observation that is one picture, of two or three dimensions, gets a "
                    "convolution; a wrapper around the environment could give that alone"
                )

    def __call__(self, observations: Any) -> Array:
        """A batch of observations, as rows."""
        return self._encode(observations)


def is_image(space: spaces.Space[Any]) -> bool:
    """Whether a convolution makes sense: neither of the two dimensions that are seen is very short."""
    if not isinstance(space, spaces.Box) or len(space.shape) not in (2, 3):
        return False
    if len(space.shape) == 2 and not _has_shades(space):
        return False
    _, height, width = _channels_first(space.shape)
    return min(height, width) >= SMALLEST_IMAGE


def _has_shades(space: spaces.Box) -> bool:
    return space.dtype == np.uint8 and bool((space.high >= MANY_SHADES - 1).any())


def _is_like_an_image(space: spaces.Box) -> bool:
    """Whether it is a picture, or several of them behind each other."""
    is_stack = len(space.shape) > 3 and _has_shades(space) and sorted(space.shape)[-2] >= SMALLEST_IMAGE
    return is_stack or is_image(space)


def _channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) == 2:
        return (1, *shape)
    return shape if _has_channels_first(shape) else (shape[2], shape[0], shape[1])


def _has_channels_first(shape: tuple[int, ...]) -> bool:
    first, middle, last = shape
    if (first == middle) != (middle == last):  # a square, of however many channels
        return middle == last
    # Colours or frames are few; they come last in most environments.
    return first < last


def _image_encoder(space: spaces.Box) -> Encode:
    # An environment that is evaluated by itself may give another type than its space says.
    numbers: Encode = (lambda batch: np.asarray(batch, np.uint8)) if space.dtype == np.uint8 else _scaler(space)
    if len(space.shape) == 2:
        return lambda batch: numbers(batch)[:, None]
    if _has_channels_first(space.shape):
        return numbers
    return lambda batch: np.ascontiguousarray(np.moveaxis(numbers(batch), -1, 1))


def _scaler(space: spaces.Box) -> Encode:
    """What makes numbers of about 1 of a picture: all of them by the same bounds, so that it looks as before."""
    low, high = float(space.low.min()), float(space.high.max())
    is_small = low >= -1 and high <= 1
    if is_small or not space.is_bounded() or not 0 < high - low <= WIDEST:
        return lambda batch: np.asarray(batch, np.float32)
    lowest, width = np.float32(low), np.float32(high - low)
    return lambda batch: (np.asarray(batch, np.float32) - lowest) / width


def _vector_encoder(space: spaces.Space[Any], name: str, pictures: list[str]) -> tuple[int, Encode]:
    """How many numbers a single observation is, and what makes them of a batch. Notes down what looks like a picture."""
    if isinstance(space, spaces.Box):
        size = int(np.prod(space.shape))
        if _is_like_an_image(space):
            pictures.append(f"{name} of shape {space.shape}")
            scaled = _scaler(space)
            return size, lambda batch: scaled(batch).reshape(len(batch), size)
        return size, lambda batch: np.asarray(batch, np.float32).reshape(len(batch), size)
    if isinstance(space, spaces.Discrete):
        count, start = int(space.n), int(space.start)
        return count, lambda batch: _one_hots(np.asarray(batch)[:, None] - start, [count])
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return size, lambda batch: np.asarray(batch, np.float32).reshape(len(batch), size)
    if isinstance(space, spaces.MultiDiscrete):
        counts, starts = space.nvec.reshape(-1).tolist(), space.start.reshape(-1)
        return sum(counts), lambda batch: _one_hots(np.asarray(batch).reshape(len(batch), -1) - starts, counts)
    if isinstance(space, spaces.Dict | spaces.Tuple):
        children = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        parts = [(key, *_vector_encoder(child, f"{name}[{key!r}]", pictures)) for key, child in children]

        def concatenated(batch: Any) -> Array:
            return np.concatenate([encode(batch[key]) for key, _, encode in parts], axis=1)

        return sum(size for _, size, _ in parts), concatenated
    raise ConfigurationError(
        f"{name} is {space}, of which a network cannot be made: use Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or "
        "Tuple of these, or put a wrapper around the environment that turns it into one"
    )


def _one_hots(values: Array, counts: list[int]) -> Array:
    """For every column of ``values``, as many columns as it has possible values, of which one is 1."""
    rows, hot, begin = np.arange(len(values)), np.zeros((len(values), sum(counts)), np.float32), 0
    for column, count in enumerate(counts):
        # A view of its own, so that a value that is not possible does not become one of the next column.
        hot[:, begin : begin + count][rows, values[:, column]] = 1.0
        begin += count
    return hot
