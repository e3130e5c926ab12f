"""What all rows of a world remember, wherever they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.vector.errors import ConfigurationError
from shoal.vector.parallel_env import ParallelEnv


def states_of(envs: ParallelEnv) -> Any:
    """The states of all environments of a world, as one NumPy record array. It is a copy."""
    workers = envs.worker_envs
    try:
        batches = envs.get_attr("all_rows", [rows.start for rows in workers])
    except AttributeError:
        raise ConfigurationError(
            "these are no environments of a world of Shoal's, so they have no such states"
        ) from None
    if [len(batch) for batch in batches] != [len(rows) for rows in workers]:
        batches = envs.get_attr("own_row")  # environments that were made one by one
    return np.concatenate(batches).view(np.recarray)
