"""Layers on top of each other, forwards and backwards, without torch.

::

    forward     observations ─▶ units ─▶ units ─▶ outputs
    backward    gradients of the weights ◀─ ◀─ ◀─ slope of the loss with respect to the outputs
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal.ppo.kernels import activate, through_activation
from shoal.vector.layout import Array


class Layer(NamedTuple):
    """Its weights (units, inputs) and its biases; or their gradients."""

    weights: Array
    biases: Array


class Desk:
    """Room for what layers make of so many rows, to be used again and again."""

    def __init__(self, layers: Sequence[Layer], num_rows: int) -> None:
        widths = [len(layer.biases) for layer in layers]
        self.units = [np.empty((num_rows, width), np.float32) for width in widths]
        self.slopes = [np.empty((num_rows, width), np.float32) for width in widths]
        self.ones = np.ones(num_rows, np.float32)


def forward(layers: Sequence[Layer], is_tanh: bool, observations: Array, desk: Desk) -> Array:
    """What the last layer gives. What the others give stays on the desk."""
    source = observations
    for layer, room in zip(layers, desk.units, strict=True):
        target = room[: len(source)]
        np.matmul(source, layer.weights.T, out=target)
        if layer is layers[-1]:
            target += layer.biases
        else:
            activate(target, layer.biases, is_tanh)
        source = target
    return source


def backward(
    layers: Sequence[Layer], is_tanh: bool, observations: Array, desk: Desk, gradients: Sequence[Layer]
) -> None:
    """Fill in the gradients, after :func:`forward` and with the slope of the outputs on the desk."""
    count = len(observations)
    np.matmul(desk.ones[:count], desk.slopes[-1][:count], out=gradients[-1].biases)
    for number in range(len(layers) - 1, 0, -1):
        slope, units, before = (
            desk.slopes[number][:count],
            desk.units[number - 1][:count],
            desk.slopes[number - 1][:count],
        )
        np.matmul(slope.T, units, out=gradients[number].weights)
        if slope.shape[1] == 1:
            np.multiply(slope, layers[number].weights, out=before)  # NumPy has no quick product for this
        else:
            np.matmul(slope, layers[number].weights, out=before)
        through_activation(before, units, is_tanh, gradients[number - 1].biases)
    np.matmul(desk.slopes[0][:count].T, observations, out=gradients[0].weights)
