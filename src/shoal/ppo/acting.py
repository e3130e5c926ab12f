"""The policy while it acts: as quick as possible, without gradients.

Where it is small and on the CPU, most of its time would go into calling torch, so its layers are computed in NumPy. Values
and probabilities are not needed for acting: they are computed later, for a whole rollout at once.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import nn

from shoal.ppo.network import Network
from shoal.vector.layout import Array


class Policy(Protocol):
    """Gives outputs for the head."""

    def outputs(self, observations: Array) -> Array:
        """For a batch of encoded observations, one for each environment."""

    def begin(self, is_new: Array) -> None:
        """Episodes begin in these environments: what was remembered of them is forgotten."""

    @property
    def deviation(self) -> Array | None:
        """Of continuous actions."""


def policy_of(network: Network, device: torch.device) -> Policy:
    """The quickest way to act. It has the weights of now: after an update, ask again."""
    if network.convolution is None and network.memory is None and device.type == "cpu":
        return PlainPolicy(network)
    return TorchPolicy(network, device)


class PlainPolicy:
    """Layers in NumPy."""

    def __init__(self, network: Network) -> None:
        self._layers: list[tuple[Array, Array]] = []
        self._is_tanh = False
        for layer in network.policy:
            if isinstance(layer, nn.Linear):
                self._layers.append((layer.weight.detach().numpy().T, layer.bias.detach().numpy()))
            else:
                self._is_tanh = isinstance(layer, nn.Tanh)
        self.deviation = None if network.deviation is None else network.deviation.detach().numpy().copy()

    def outputs(self, observations: Array) -> Array:
        """For a batch of encoded observations."""
        values = observations
        *hidden, (last_weights, last_bias) = self._layers
        for weights, bias in hidden:
            values = values @ weights
            values += bias
            if self._is_tanh:
                np.tanh(values, out=values)
            else:
                np.maximum(values, 0.0, out=values)
        result: Array = values @ last_weights
        result += last_bias
        return result

    def begin(self, is_new: Array) -> None:
        """It remembers nothing."""


class TorchPolicy:
    """Layers in torch, for pictures, memories and other devices."""

    def __init__(self, network: Network, device: torch.device, states: torch.Tensor | None = None) -> None:
        self._network, self._device = network, device
        self.states = states
        deviation = network.deviation
        self.deviation = None if deviation is None else deviation.detach().cpu().numpy().copy()

    @torch.inference_mode()
    def outputs(self, observations: Array) -> Array:
        """For a batch of encoded observations."""
        features = self._network.features(torch.as_tensor(observations).to(self._device))
        if self._network.memory is not None:
            if self.states is None:
                self.states = torch.zeros(len(features), self._network.memory.hidden_size, device=self._device)
            self.states = features = self._network.memory(features, self.states)
        result: Array = self._network.policy(features).cpu().numpy()
        return result

    def begin(self, is_new: Array) -> None:
        """Forget what was remembered of these environments."""
        if self.states is not None:
            self.states = self.states * torch.as_tensor(~is_new, device=self._device)[:, None]
