"""The arithmetic of acting, row by row, compiled.

A matrix product of a library may round otherwise for another number of rows, or for another place of a row among them. Then
a rollout would depend on which others are under way beside it. Here each row goes through the same operations by itself, and
each of them is rounded as it is written.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from shoal.envs.arithmetic import HALF, ONE, ZERO, add_products, hyperbolic_tangent
from shoal.envs.compiling import kernel, rule
from shoal.vector.layout import Array

compiled = partial(kernel, what="the arithmetic of acting", is_exact=True)
LEAST_LOG, MOST_LOG = np.float32(-5), np.float32(2)
"""Deviations of actions are between the exponentials of these."""


@rule
def sigmoid(x: np.float32) -> np.float32:
    """Between 0 and 1."""
    return HALF + HALF * hyperbolic_tangent(HALF * x)


@compiled
def dense(inputs: Array, weights: Array, biases: Array, is_rectified: bool, outputs: Array) -> None:
    """A layer. Weights stand input by input, one behind the other."""
    for row in range(len(inputs)):
        target = outputs[row]
        target[:] = biases
        add_products(target, inputs[row], weights)
        if is_rectified:
            for unit in range(len(target)):
                target[unit] = max(target[unit], ZERO)


@compiled
def gru_step(seen: Array, known: Array, before: Array, after: Array) -> None:
    """A step of a gated recurrent unit: reset, update, candidate. ``seen`` and ``known`` are layers of inputs and states."""
    size = before.shape[1]
    for row in range(len(before)):
        its, was = seen[row], known[row]
        for unit in range(size):
            reset = sigmoid(its[unit] + was[unit])
            update = sigmoid(its[size + unit] + was[size + unit])
            candidate = hyperbolic_tangent(its[2 * size + unit] + reset * was[2 * size + unit])
            after[row, unit] = candidate + update * (before[row, unit] - candidate)


@compiled
def lstm_step(seen: Array, known: Array, before: Array, after: Array) -> None:
    """A step of a long short-term memory: input, forget, candidate, output. A state is what it shows, and its cell."""
    size = before.shape[1] // 2
    gates = seen + known
    for row in range(len(before)):
        for unit in range(size):
            kept = sigmoid(gates[row, size + unit]) * before[row, size + unit]
            cell = kept + sigmoid(gates[row, unit]) * hyperbolic_tangent(gates[row, 2 * size + unit])
            after[row, size + unit] = cell
            after[row, unit] = sigmoid(gates[row, 3 * size + unit]) * hyperbolic_tangent(cell)


@compiled
def draw_numbers(outputs: Array, noise: Array, actions: Array) -> None:
    """Numbers between -1 and 1: a mean and the logarithm of a deviation for each, squashed."""
    width = actions.shape[1]
    for row in range(len(outputs)):
        for entry in range(width):
            deviation = np.exp(min(max(outputs[row, width + entry], LEAST_LOG), MOST_LOG))
            actions[row, entry] = hyperbolic_tangent(outputs[row, entry] + deviation * noise[row, entry])


@compiled
def draw_choices(outputs: Array, noise: Array, actions: Array) -> None:
    """A one for the choice, each with its probability, zeros for the others. Noise is between 0 and 1."""
    weights = np.empty(outputs.shape[1], np.float32)
    for row in range(len(outputs)):
        largest, total = outputs[row, 0], ZERO
        for option in range(len(weights)):
            largest = max(largest, outputs[row, option])
        for option in range(len(weights)):
            weights[option] = np.exp(outputs[row, option] - largest)
            total += weights[option]
        left, chosen = noise[row, 0] * total, len(weights) - 1
        for option in range(len(weights)):
            left -= weights[option]
            if left < ZERO:
                chosen = option
                break
        actions[row] = ZERO
        actions[row, chosen] = ONE
