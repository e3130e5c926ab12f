"""Actions: how many numbers a policy gives for them, how one is drawn, and how likely it was.

How likely an action was, and what to change to make it likelier, is known twice: for small networks by hand, compiled, and
for all others by torch, which finds gradients itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from gymnasium import spaces

from shoal.ppo.kernels import (
    NEVER,
    choices_log_probability,
    choices_loss,
    draw_choices,
    numbers_log_probability,
    numbers_loss,
)
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

NO_MASKS = np.empty((0, 0), np.bool_)


class Push(NamedTuple):
    """What an update knows about some actions, and how far it may go. Arrays have a row for each action."""

    actions: Array
    masks: Array | None
    before: Array
    """Log-probabilities of the actions when they were drawn."""
    advantages: Array
    clip: np.float32
    entropy_weight: np.float32
    share: np.float32
    """One divided by how many samples there are in all."""


class Head(Protocol):
    """Actions of a space. They are rows of ``width`` numbers, of ``dtype``."""

    num_outputs: int
    """What the policy gives for an action."""
    width: int
    dtype: np.dtype[Any]
    has_deviation: bool
    """Whether the policy also learns how far actions lie apart, the same for all observations."""

    def noise(self, random: np.random.Generator, count: int) -> Array:
        """Random numbers for so many actions."""

    def draw(self, outputs: Array, deviation: Array | None, noise: Array, masks: Array | None) -> Array:
        """Actions for these outputs and random numbers."""

    def with_a_way_out(self, masks: Array) -> Array:
        """The same, but where nothing is possible, everything is: it says nothing, or is being reset."""

    def best(self, outputs: Array, masks: Array | None) -> Array:
        """The most likely actions."""

    def for_envs(self, actions: Array) -> Array:
        """Actions as environments take them."""

    def log_probability(
        self, outputs: torch.Tensor, deviation: torch.Tensor | None, actions: torch.Tensor, masks: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """How likely these actions are, as logarithms, and the entropy of the policy."""

    def log_probability_by_hand(
        self, outputs: Array, log_deviation: Array, actions: Array, masks: Array | None
    ) -> Array:
        """How likely these actions are, as logarithms."""

    def loss_by_hand(
        self, outputs: Array, log_deviation: Array, push: Push, gradient: Array, of_deviation: Array, said: Array
    ) -> None:
        """Fill in the gradients of the loss with respect to outputs and deviation, and add to what it says about itself."""


def head_of(space: spaces.Space[Any]) -> Head:
    """Actions of this space."""
    if isinstance(space, spaces.Discrete):
        return Choices((int(space.n),), np.array([space.start]), is_single=True, shape=())
    if isinstance(space, spaces.MultiDiscrete):
        return Choices(
            tuple(space.nvec.reshape(-1).tolist()), space.start.reshape(-1), is_single=False, shape=space.shape
        )
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return Choices((2,) * size, np.zeros(size, np.int64), is_single=False, shape=space.shape)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return Numbers(space)
    raise ConfigurationError(
        f"the action space is {space}, for which there is no policy: use Discrete, MultiDiscrete, MultiBinary or a Box of "
        "floating-point numbers"
    )


class Choices:
    """One choice, or several that are made at the same time."""

    has_deviation = False

    def __init__(self, sizes: tuple[int, ...], starts: Array, *, is_single: bool, shape: tuple[int, ...]) -> None:
        self.sizes, self._starts, self._is_single, self._shape = sizes, starts, is_single, shape
        self.num_outputs, self.width, self.dtype = sum(sizes), len(sizes), np.dtype(np.int64)
        self._ends = np.cumsum(sizes)
        self._pieces = [slice(end - size, end) for end, size in zip(self._ends.tolist(), sizes, strict=True)]

    def noise(self, random: np.random.Generator, count: int) -> Array:
        """Between 0 and 1."""
        return random.random((count, self.width), dtype=np.float32)

    def draw(self, outputs: Array, deviation: Array | None, noise: Array, masks: Array | None) -> Array:
        """Each choice with its probability."""
        actions = np.empty((len(outputs), self.width), np.int64)
        draw_choices(outputs, NO_MASKS if masks is None else masks, noise, self._ends, actions)
        return actions

    def with_a_way_out(self, masks: Array) -> Array:
        """For each choice by itself."""
        for piece in self._pieces:
            masks[~masks[:, piece].any(axis=1), piece] = True
        return masks

    def best(self, outputs: Array, masks: Array | None) -> Array:
        """The most likely choices."""
        if masks is not None:
            outputs = np.where(masks, outputs, NEVER)
        return np.stack([outputs[:, piece].argmax(axis=1) for piece in self._pieces], axis=1)

    def for_envs(self, actions: Array) -> Array:
        """With the numbers that the space begins with."""
        shifted = actions + self._starts
        return shifted[:, 0] if self._is_single else shifted.reshape(len(actions), *self._shape)

    def log_probability(
        self, outputs: torch.Tensor, deviation: torch.Tensor | None, actions: torch.Tensor, masks: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Sums over all choices."""
        if masks is not None:
            outputs = outputs.masked_fill(~masks, float(NEVER))
        if self._is_single:
            logs = torch.log_softmax(outputs, dim=-1)
            return logs.gather(-1, actions).squeeze(-1), -(logs.exp() * logs).sum(-1)
        likelihood = entropy = torch.zeros((), device=outputs.device)
        for number, piece in enumerate(self._pieces):
            logs = torch.log_softmax(outputs[..., piece], dim=-1)
            likelihood = likelihood + logs.gather(-1, actions[..., number : number + 1]).squeeze(-1)
            entropy = entropy - (logs.exp() * logs).sum(-1)
        return likelihood, entropy

    def log_probability_by_hand(
        self, outputs: Array, log_deviation: Array, actions: Array, masks: Array | None
    ) -> Array:
        """Sums over all choices."""
        found = np.empty(len(outputs), np.float32)
        choices_log_probability(outputs, NO_MASKS if masks is None else masks, actions, self._ends, found)
        return found

    def loss_by_hand(
        self, outputs: Array, log_deviation: Array, push: Push, gradient: Array, of_deviation: Array, said: Array
    ) -> None:
        """There is no deviation."""
        choices_loss(
            outputs, NO_MASKS if push.masks is None else push.masks, push.actions, push.before, push.advantages,
            self._ends, push.clip, push.entropy_weight, push.share, gradient, said,
        )  # fmt: skip


class Numbers:
    """Continuous actions: normally distributed around what the policy says."""

    has_deviation = True
    dtype = np.dtype(np.float32)

    def __init__(self, space: spaces.Box) -> None:
        self._space, self._shape = space, space.shape
        self.num_outputs = self.width = int(np.prod(space.shape))

    def noise(self, random: np.random.Generator, count: int) -> Array:
        """Normally distributed."""
        return random.standard_normal((count, self.width), dtype=np.float32)

    def draw(self, outputs: Array, deviation: Array | None, noise: Array, masks: Array | None) -> Array:
        """Around the mean."""
        assert deviation is not None
        actions: Array = outputs + noise * deviation
        return actions

    def with_a_way_out(self, masks: Array) -> Array:
        """Masks say nothing about numbers."""
        return masks

    def best(self, outputs: Array, masks: Array | None) -> Array:
        """The mean."""
        return outputs

    def for_envs(self, actions: Array) -> Array:
        """Within the bounds of the space. What was drawn stays what it was."""
        return np.clip(actions.reshape(len(actions), *self._shape), self._space.low, self._space.high)

    def log_probability(
        self, outputs: torch.Tensor, deviation: torch.Tensor | None, actions: torch.Tensor, masks: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Of independent normal distributions."""
        assert deviation is not None
        normal: Any = torch.distributions.Normal(outputs, deviation, validate_args=False)
        return normal.log_prob(actions).sum(-1), normal.entropy().sum(-1)

    def log_probability_by_hand(
        self, outputs: Array, log_deviation: Array, actions: Array, masks: Array | None
    ) -> Array:
        """Of independent normal distributions."""
        found = np.empty(len(outputs), np.float32)
        numbers_log_probability(outputs, log_deviation, actions, found)
        return found

    def loss_by_hand(
        self, outputs: Array, log_deviation: Array, push: Push, gradient: Array, of_deviation: Array, said: Array
    ) -> None:
        """Of means and of log-deviations."""
        numbers_loss(
            outputs, log_deviation, push.actions, push.before, push.advantages, push.clip, push.entropy_weight,
            push.share, gradient, of_deviation, said,
        )  # fmt: skip
