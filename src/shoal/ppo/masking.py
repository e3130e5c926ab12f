"""Which actions are possible, where environments say so in ``info["action_mask"]``."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.ppo.heads import Head
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array


def masks_of(info: dict[str, Any], num_envs: int, head: Head) -> Array | None:
    """One row for each environment, from infos that were batched; ``None`` if nobody says anything."""
    masks = info.get("action_mask")
    if masks is None:
        return None
    if isinstance(masks, np.ndarray) and masks.dtype != object and masks.size == num_envs * head.num_outputs:
        rows = masks.astype(np.bool_).reshape(num_envs, -1)
    else:
        rows = np.stack([_row(mask, head.num_outputs) for mask in masks])
    return head.with_a_way_out(rows)


def mask_of(info: dict[str, Any], head: Head) -> Array | None:
    """The same for a single environment, as a batch of one."""
    mask = info.get("action_mask")
    return None if mask is None else head.with_a_way_out(_row(mask, head.num_outputs)[None])


def _row(mask: Any, num_outputs: int) -> Array:
    """A list, an array, or, for several choices, one of these for each; who says nothing may do everything."""
    if mask is None:
        return np.ones(num_outputs, np.bool_)
    try:
        parts = [np.asarray(part) for part in mask] if isinstance(mask, tuple | list) else [np.asarray(mask)]
        row = np.concatenate([part.astype(np.bool_).reshape(-1) for part in parts])
    except (TypeError, ValueError) as error:
        raise _wrong(mask, str(error)) from None
    if len(row) != num_outputs:
        raise _wrong(mask, f"it has {len(row)} entries, but there are {num_outputs} actions to choose from")
    return row


def _wrong(mask: Any, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"info['action_mask'] must say of each action whether it is possible, as an array or a list (for several choices: a "
        f"tuple of these), got {mask!r}: {what}"
    )
