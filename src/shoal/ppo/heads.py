"""Actions: how many numbers a policy gives for them, how one is drawn, and how likely it was.

Drawing is done in NumPy, where environments are; how likely an action was is computed in torch, where gradients are.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces

from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

NEVER = -1e9
"""What a masked action is given instead of its number."""


class Head(Protocol):
    """Actions of a space. They are rows of ``width`` numbers, of ``dtype``."""

    num_outputs: int
    """What the policy gives for an action."""
    width: int
    dtype: np.dtype[Any]
    has_deviation: bool
    """Whether the policy also learns how far actions lie apart, the same for all observations."""

    def draw(self, outputs: Array, deviation: Array | None, random: np.random.Generator, masks: Array | None) -> Array:
        """Actions for these outputs."""

    def best(self, outputs: Array, masks: Array | None) -> Array:
        """The most likely actions."""

    def for_envs(self, actions: Array) -> Array:
        """Actions as environments take them."""

    def log_probability(
        self, outputs: torch.Tensor, deviation: torch.Tensor | None, actions: torch.Tensor, masks: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """How likely these actions are, as logarithms, and the entropy of the policy."""


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
        ends = np.cumsum(sizes).tolist()
        self._pieces = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def draw(self, outputs: Array, deviation: Array | None, random: np.random.Generator, masks: Array | None) -> Array:
        """Each choice with its probability."""
        if masks is not None:
            outputs = np.where(masks, outputs, np.float32(NEVER))
        chances = random.random((len(outputs), self.width), dtype=np.float32)
        actions = np.empty((len(outputs), self.width), np.int64)
        for number, piece in enumerate(self._pieces):
            logits = outputs[:, piece]
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            sums = weights.cumsum(axis=1)
            total = sums[:, -1]
            # Less than the total also after rounding, so that what cannot happen does not.
            threshold = np.minimum(chances[:, number] * total, np.nextafter(total, np.float32(0)))
            actions[:, number] = (sums > threshold[:, None]).argmax(axis=1)
        return actions

    def best(self, outputs: Array, masks: Array | None) -> Array:
        """The most likely choices."""
        if masks is not None:
            outputs = np.where(masks, outputs, np.float32(NEVER))
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
            outputs = outputs.masked_fill(~masks, NEVER)
        if self._is_single:
            logs = torch.log_softmax(outputs, dim=-1)
            return logs.gather(-1, actions).squeeze(-1), -(logs.exp() * logs).sum(-1)
        likelihood = entropy = torch.zeros((), device=outputs.device)
        for number, piece in enumerate(self._pieces):
            logs = torch.log_softmax(outputs[..., piece], dim=-1)
            likelihood = likelihood + logs.gather(-1, actions[..., number : number + 1]).squeeze(-1)
            entropy = entropy - (logs.exp() * logs).sum(-1)
        return likelihood, entropy


class Numbers:
    """Continuous actions: normally distributed around what the policy says."""

    has_deviation = True
    dtype = np.dtype(np.float32)

    def __init__(self, space: spaces.Box) -> None:
        self._space, self._shape = space, space.shape
        self.num_outputs = self.width = int(np.prod(space.shape))

    def draw(self, outputs: Array, deviation: Array | None, random: np.random.Generator, masks: Array | None) -> Array:
        """Around the mean."""
        assert deviation is not None
        noise = random.standard_normal(outputs.shape, dtype=np.float32)
        return outputs + noise * deviation

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
