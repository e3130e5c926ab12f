"""The network: a policy and a value, each with its own layers, or on top of a shared convolution or memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from shoal.envs.compiling import is_compiling
from shoal.ppo.config import PPOConfig
from shoal.ppo.heads import Head

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}
FIRST_LOG_DEVIATION = 0.0


class Network(nn.Module):
    """What acts and what judges.

    ::

        observation ─▶ trunk (picture: convolution; memory: recurrent layer; else nothing) ─┬─▶ policy ─▶ outputs of the head
                                                                                            └─▶ value
    """

    def __init__(self, shape: tuple[int, ...], is_image: bool, head: Head, config: PPOConfig) -> None:
        super().__init__()
        self.convolution = Convolution(shape) if is_image else None
        size = self.convolution.size if self.convolution is not None else shape[0]
        self.memory = nn.GRUCell(size, config.recurrent_size) if config.recurrent_size else None
        if self.memory is not None:
            size = config.recurrent_size
        activation = ACTIVATIONS[config.activation]
        self.is_tanh = config.activation == "tanh"
        self.policy = perceptron(size, config.hidden_sizes, head.num_outputs, activation, last_gain=0.01)
        self.value = perceptron(size, config.hidden_sizes, 1, activation, last_gain=1.0)
        self.log_deviation = (
            nn.Parameter(torch.full((head.num_outputs,), FIRST_LOG_DEVIATION)) if head.has_deviation else None
        )

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but layers, which :mod:`shoal.ppo.kernels` computes faster than torch."""
        return self.convolution is None and self.memory is None and is_compiling()

    def features(self, observations: torch.Tensor) -> torch.Tensor:
        """What the layers on top are given, but for the memory."""
        return observations if self.convolution is None else self.convolution(observations)

    def remember(self, features: torch.Tensor, states: torch.Tensor, begins: torch.Tensor) -> torch.Tensor:
        """The memory after every step of (time, environments). It is emptied where an episode begins."""
        assert self.memory is not None
        remembered = []
        for step in range(len(features)):
            states = self.memory(features[step], states * ~begins[step, :, None])
            remembered.append(states)
        return torch.stack(remembered)

    @property
    def deviation(self) -> torch.Tensor | None:
        """Of continuous actions."""
        return None if self.log_deviation is None else self.log_deviation.exp()


class Convolution(nn.Module):
    """Three layers for small pictures. Bytes are scaled to at most one; other pictures come as they are to be taken."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        channels, height, width = shape
        # A stride of four is for large pictures; small ones would have nothing left.
        first = (8, 4) if min(height, width) >= 36 else (3, 1)
        self.layers = nn.Sequential(
            _orthogonal(nn.Conv2d(channels, 32, first[0], first[1])),
            nn.ReLU(),
            _orthogonal(nn.Conv2d(32, 64, 4 if first[1] == 4 else 3, 2)),
            nn.ReLU(),
            _orthogonal(nn.Conv2d(64, 64, 3 if first[1] == 4 else 2, 1)),
            nn.ReLU(),
            nn.Flatten(),
        )
        with torch.no_grad():
            self.size = int(self.layers(torch.zeros(1, *shape)).shape[1])

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Features of a batch of pictures."""
        scaled = pictures.float() / 255.0 if pictures.dtype == torch.uint8 else pictures
        features: torch.Tensor = self.layers(scaled)
        return features


def perceptron(
    size: int, hidden_sizes: Sequence[int], num_outputs: int, activation: type[nn.Module], last_gain: float
) -> nn.Sequential:
    """Layers, with orthogonal weights to begin with."""
    layers: list[nn.Module] = []
    for width in hidden_sizes:
        layers += [_orthogonal(nn.Linear(size, width)), activation()]
        size = width
    return nn.Sequential(*layers, _orthogonal(nn.Linear(size, num_outputs), last_gain))


def _orthogonal(layer: Any, gain: float = math.sqrt(2)) -> Any:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
