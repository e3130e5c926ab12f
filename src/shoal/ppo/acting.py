"""The policy while it acts: as quick as possible, without gradients.

Where it is a few layers on the CPU, most of its time would go into calling torch, so that they are computed in one call of
our own. Values and probabilities are not needed for acting: they are computed later, for a whole rollout at once.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import nn

from shoal.ppo.kernels import act
from shoal.ppo.network import Network
from shoal.vector.layout import Array


class Policy(Protocol):
    """Gives outputs for the head."""

    def outputs(self, observations: Array, rows: slice) -> Array:
        """For encoded observations of these environments."""

    def begin(self, is_new: Array, rows: slice) -> None:
        """Episodes begin in some of these environments: what was remembered of them is forgotten."""

    def first_states(self) -> torch.Tensor | None:
        """What it remembers now, as it is, whatever it does afterwards."""

    @property
    def deviation(self) -> Array | None:
        """Of continuous actions."""


def policy_of(network: Network, device: torch.device) -> Policy:
    """The quickest way to act. It has the weights of now: after an update, ask again."""
    return CompiledPolicy(network) if network.is_plain and device.type == "cpu" else TorchPolicy(network, device)


class CompiledPolicy:
    """A few layers, in one call."""

    def __init__(self, network: Network) -> None:
        layers = [layer for layer in network.policy if isinstance(layer, nn.Linear)]
        pieces = [piece for layer in layers for piece in (layer.weight.detach().T.flatten(), layer.bias.detach())]
        self._weights: Array = torch.cat(pieces).numpy()
        self._sizes = np.array([layers[0].in_features, *(layer.out_features for layer in layers)])
        self._hidden = np.empty((2, self._sizes.max()), np.float32)
        self._is_tanh = network.is_tanh
        self.deviation = None if network.deviation is None else network.deviation.detach().numpy().copy()

    def outputs(self, observations: Array, rows: slice) -> Array:
        """For encoded observations of some environments. It does not matter of which."""
        outputs = np.empty((len(observations), self._sizes[-1]), np.float32)
        act(np.ascontiguousarray(observations), self._weights, self._sizes, self._is_tanh, self._hidden, outputs)
        return outputs

    def begin(self, is_new: Array, rows: slice) -> None:
        """It remembers nothing."""

    def first_states(self) -> torch.Tensor | None:
        """It remembers nothing."""
        return None


class TorchPolicy:
    """Layers in torch, for pictures, memories and other devices."""

    def __init__(self, network: Network, device: torch.device, states: torch.Tensor | None = None) -> None:
        self._network, self._device = network, device
        self.states = states
        deviation = network.deviation
        self.deviation = None if deviation is None else deviation.detach().cpu().numpy().copy()

    @torch.inference_mode()
    def outputs(self, observations: Array, rows: slice) -> Array:
        """For encoded observations of these environments."""
        features = self._network.features(torch.as_tensor(np.ascontiguousarray(observations)).to(self._device))
        if self.states is not None:
            assert self._network.memory is not None
            features = self._network.memory(features, self.states[rows])
            self.states[rows] = features
        result: Array = self._network.policy(features).cpu().numpy()
        return result

    def first_states(self) -> torch.Tensor | None:
        """A copy, because acting changes what is remembered in place."""
        return None if self.states is None else self.states.clone()

    def begin(self, is_new: Array, rows: slice) -> None:
        """Forget what was remembered of some of these environments."""
        if self.states is not None:
            self.states[rows] *= torch.as_tensor(~is_new, device=self._device)[:, None]
