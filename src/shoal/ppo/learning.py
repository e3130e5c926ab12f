"""What an update needs from a network: to judge what was seen, and to become a little better at it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch

from shoal.vector.layout import Array

SAID = ("policy_loss", "value_loss", "entropy", "approx_kl", "clipfrac")
"""What a step of an update says about itself."""


class Samples(NamedTuple):
    """Everything that an update learns from: arrays of (steps, environments, ...)."""

    observations: Array
    actions: Array
    masks: Array | None
    log_probabilities: Array
    """Of the policy that acted."""
    values: Array
    advantages: Array
    returns: Array
    is_valid: Array
    begins: Array
    first_states: torch.Tensor | None
    """Of the memory."""


class Learner(Protocol):
    """A network and its optimiser."""

    def judge(
        self, observations: Array, begins: Array, first_states: torch.Tensor | None, actions: Array, masks: Array | None
    ) -> tuple[Array, Array]:
        """Values of all observations, and log-probabilities of the actions that followed all but the last."""

    def take(self, samples: Samples) -> Array:
        """From now on, learn from these. Returns the numbers of what :meth:`improve` may be given."""

    def improve(self, chosen: Array, rate: float) -> Array:
        """One step with some of the samples. Returns the means of what it says about itself."""

    def tensors(self) -> dict[str, torch.Tensor]:
        """What the optimiser knows."""

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Go on from there."""

    def close(self) -> None:
        """End its threads."""


def normalised(values: Array) -> Array:
    """With mean 0 and deviation 1."""
    if len(values) < 2:
        return values
    scaled: Array = (values - values.mean()) / (values.std() + np.float32(1e-8))
    return scaled
