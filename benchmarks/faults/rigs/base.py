"""What every library is made to do, in the words of its own documentation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

MakeEnv = Callable[[int], gymnasium.Env[Any, Any]]
"""Makes the environment with this index; can be pickled."""


class Given(NamedTuple):
    """What a library gave back: arrays with a row for each of these environments."""

    env_ids: list[int]
    fields: dict[str, NDArray[Any]]


class Limits(NamedTuple):
    """What an environment may use before something is done about it; ``None`` for as much as it likes."""

    step_seconds: float | None = None
    worker_megabytes: int | None = None


class FaultRig(ABC):
    """A library with environments that are stepped together."""

    @abstractmethod
    def open(self, make_env: MakeEnv, num_envs: int, limits: Limits) -> None:
        """Make the environments, with these limits where the library has them."""

    @abstractmethod
    def reset(self, seed: int) -> Given:
        """Reset all of them; the same seed must give the same results."""

    @abstractmethod
    def step(self, actions: NDArray[np.int64]) -> Given:
        """Step all of them, resetting finished episodes as users of the library do."""

    @abstractmethod
    def close(self) -> None:
        """Close them as users do."""

    @abstractmethod
    def worker_pid(self, env_index: int) -> int:
        """The process in which this environment lives."""


def all_of(num_envs: int, **fields: Any) -> Given:
    """The results of all environments, copied, because some libraries use the memory again."""
    return Given(list(range(num_envs)), {name: np.array(values) for name, values in fields.items()})
