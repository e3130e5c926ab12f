"""The arithmetic of acting, row by row, compiled.

A matrix product of a library may round otherwise for another number of rows, or for another place of a row among them. Then
a rollout would depend on which others are under way beside it. Here each row goes through the same instructions by itself.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from shoal.envs.arithmetic import HALF, ONE, ZERO, add_products, hyperbolic_tangent
from shoal.envs.compiling import kernel, rule
from shoal.vector.layout import Array

compiled = partial(kernel, what="the arithmetic of acting")
LEAST_LOG, MOST_LOG = np.float32(-5), np.float32(2)
"""Deviations of actions are between the exponentials of these."""


@rule
def sigmoid(x: np.float32) -> np.float32:
    """Between 0 and 1."""
    return HALF + HALF * hyperbolic_tangent(HALF * x)


@compiled
def dense(inputs: Array, weights: Array, biases: Array, is_rectified: bool, outputs: Array) -> None:
    """A layer. Here and below, weights stand input by input, one behind the other."""
    for row in range(len(inputs)):
        target = outputs[row]
        target[:] = biases
        add_products(target, inputs[row], weights)
        if is_rectified:
            for unit in range(len(target)):
                target[unit] = max(target[unit], ZERO)


@compiled
def gru(
    inputs: Array, states: Array, of_inputs: Array, input_biases: Array, of_states: Array, state_biases: Array, after: Array
) -> None:  # fmt: skip
    """A step of a gated recurrent unit: its gates are, in this order, reset, update and candidate, as in torch."""
    size = states.shape[1]
    seen, known = np.empty(3 * size, np.float32), np.empty(3 * size, np.float32)
    for row in range(len(inputs)):
        seen[:], known[:] = input_biases, state_biases
        add_products(seen, inputs[row], of_inputs)
        add_products(known, states[row], of_states)
        for unit in range(size):
            reset = sigmoid(seen[unit] + known[unit])
            update = sigmoid(seen[size + unit] + known[size + unit])
            candidate = hyperbolic_tangent(seen[2 * size + unit] + reset * known[2 * size + unit])
            after[row, unit] = candidate + update * (states[row, unit] - candidate)


@compiled
def lstm(
    inputs: Array, states: Array, of_inputs: Array, input_biases: Array, of_states: Array, state_biases: Array, after: Array
) -> None:  # fmt: skip
    """A step of a long short-term memory: input, forget, candidate, output. A state is what it shows, and its cell."""
    size = states.shape[1] // 2
    gates = np.empty(4 * size, np.float32)
    for row in range(len(inputs)):
        gates[:] = input_biases
        for unit in range(4 * size):
            gates[unit] += state_biases[unit]
        add_products(gates, inputs[row], of_inputs)
        add_products(gates, states[row][:size], of_states)
        for unit in range(size):
            kept = sigmoid(gates[size + unit]) * states[row, size + unit]
            cell = kept + sigmoid(gates[unit]) * hyperbolic_tangent(gates[2 * size + unit])
            after[row, size + unit] = cell
            after[row, unit] = sigmoid(gates[3 * size + unit]) * hyperbolic_tangent(cell)


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
