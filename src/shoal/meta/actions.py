"""Actions of a space, as an agent makes them: one row of numbers each.

A ``Discrete`` action is a one among zeros. A ``Box`` action is numbers between -1 and 1, which environments stretch to their
bounds. Every draw is a function of the network's outputs and of random numbers that were drawn before.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch.nn import functional

from shoal.meta.row_kernels import LEAST_LOG, MOST_LOG, draw_choices, draw_numbers
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array


def actions_of(space: spaces.Space[Any]) -> Choices | Numbers:
    """Actions of this space."""
    if isinstance(space, spaces.Discrete):
        return Choices(space)
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating):
        return Numbers(space)
    raise ConfigurationError(
        f"the action space is {space}, for which there is no agent: use Discrete, or a Box of floating-point numbers in one row"
    )


class Choices:
    """One of several."""

    def __init__(self, space: spaces.Discrete) -> None:
        self.width = self.num_outputs = int(space.n)
        self.noise_width = 1
        self.target_entropy = math.log(self.width)
        self._start = space.start

    def noise(self, random: np.random.Generator, count: int) -> Array:
        """Between 0 and 1."""
        return random.random((count, 1), dtype=np.float32)

    def random(self, random: np.random.Generator, count: int) -> Array:
        """Each with the same probability."""
        actions: Array = np.eye(self.width, dtype=np.float32)[random.integers(self.width, size=count)]
        return actions

    def draw(self, outputs: Array, noise: Array) -> Array:
        """Each with its probability."""
        actions = np.empty_like(outputs)
        draw_choices(outputs, noise, actions)
        return actions

    def best(self, outputs: Array) -> Array:
        """The one with the largest output."""
        actions: Array = np.eye(self.width, dtype=np.float32)[outputs.argmax(axis=1)]
        return actions

    def for_envs(self, actions: Array) -> Array:
        """The number of the choice."""
        numbers: Array = actions.argmax(axis=1) + self._start
        return numbers


class Numbers:
    """Numbers between -1 and 1: normally distributed ones, squashed by the hyperbolic tangent."""

    def __init__(self, space: spaces.Box) -> None:
        self.width = self.noise_width = int(space.shape[0])
        self.num_outputs = 2 * self.width
        self.target_entropy = -float(self.width)

    def noise(self, random: np.random.Generator, count: int) -> Array:
        """Normally distributed."""
        return random.standard_normal((count, self.width), dtype=np.float32)

    def random(self, random: np.random.Generator, count: int) -> Array:
        """Over the whole range."""
        return random.uniform(-1.0, 1.0, (count, self.width)).astype(np.float32)

    def draw(self, outputs: Array, noise: Array) -> Array:
        """Around the means."""
        actions = np.empty((len(outputs), self.width), np.float32)
        draw_numbers(outputs, noise, actions)
        return actions

    def best(self, outputs: Array) -> Array:
        """The means."""
        return self.draw(outputs, np.zeros((len(outputs), self.width), np.float32))

    def for_envs(self, actions: Array) -> Array:
        """As they are."""
        return actions


def sampled_numbers(outputs: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Actions that gradients flow through, and the logarithms of their probability densities."""
    means, logs = outputs.chunk(2, dim=-1)
    logs = logs.clamp(float(LEAST_LOG), float(MOST_LOG))
    raw = means + logs.exp() * noise
    of_normal = -0.5 * noise.square() - logs - 0.5 * math.log(2 * math.pi)
    # log(1 - tanh(x)^2), in a form that does not lose its digits far from zero
    of_squashing = 2.0 * (math.log(2.0) - raw - functional.softplus(-2.0 * raw))
    return torch.tanh(raw), (of_normal - of_squashing).sum(dim=-1, keepdim=True)
