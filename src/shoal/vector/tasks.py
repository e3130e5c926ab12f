"""What a reset is told: seeds, options and which environments it is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array


def seeds_of(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """One seed per environment: ``seed + i``, or its own element."""
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        return [int(seed) + index for index in range(num_envs)]
    if isinstance(seed, str | bytes) or not isinstance(seed, Sequence | np.ndarray):
        raise ConfigurationError(f"seed must be a whole number, a sequence of them, or None, got {seed!r}")
    if len(seed) != num_envs:
        raise ConfigurationError(
            f"If seeds are passed as a list the length must match num_envs={num_envs} but got length={len(seed)}."
        )
    for index, one in enumerate(seed):
        if one is not None and (isinstance(one, bool) or not isinstance(one, int | np.integer)):
            raise ConfigurationError(f"seed[{index}] must be a whole number or None, got {one!r}")
    return [None if one is None else int(one) for one in seed]


def reset_mask_of(options: dict[str, Any] | None, num_envs: int) -> tuple[dict[str, Any] | None, Array | None]:
    """The options without ``"reset_mask"``, and the mask. The caller's dictionary stays as it is."""
    if options is None or "reset_mask" not in options:
        return options, None
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"`options['reset_mask']` must be a numpy array, got {type(mask)}")
    if mask.shape != (num_envs,):
        raise ConfigurationError(f"`options['reset_mask']` must have shape `({num_envs},)`, got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"`options['reset_mask']` must have `dtype=np.bool_`, got {mask.dtype}")
    if not mask.any():
        raise ConfigurationError(
            f"`options['reset_mask']` must contain a boolean array with at least one True value, got reset_mask={mask}"
        )
    return {key: value for key, value in options.items() if key != "reset_mask"}, mask
