"""Arithmetic that compiled code of several parts has in common, in single precision throughout.

What calls these has them built in: whoever changes this file changes nothing in code that was compiled before, until the file
with the call is changed too.
"""

from __future__ import annotations

import numpy as np

from shoal.envs.compiling import rule
from shoal.vector.layout import Array

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)

FLATTEST = np.float32(8.0)
"""Beyond this, the hyperbolic tangent is one."""
# x * P(x * x) / Q(x * x), fitted to tanh(x) for |x| up to 8: the relative error is below 1e-8 before rounding.
P0, P1, P2 = np.float32(0.9999999935988902), np.float32(0.13444512646749882), np.float32(0.0035716154518369014)
P3, P4 = np.float32(2.1894950868855406e-05), np.float32(1.52308266010928e-08)
Q1, Q2 = np.float32(0.4677783997567993), np.float32(0.026164509195693804)
Q3, Q4 = np.float32(0.0003411320585154064), np.float32(8.522611885648863e-07)


@rule
def hyperbolic_tangent(x: np.float32) -> np.float32:
    """To within 4e-7, and eight at a time."""
    x = min(max(x, -FLATTEST), FLATTEST)
    square = x * x
    above = P0 + square * (P1 + square * (P2 + square * (P3 + square * P4)))
    below = ONE + square * (Q1 + square * (Q2 + square * (Q3 + square * Q4)))
    return x * above / below


@rule
def add_products(target: Array, inputs: Array, weights: Array) -> None:
    """Add to every unit its weighted inputs. Weights stand input by input."""
    num_units = len(target)
    # Four inputs at a time, because sums that are fetched and put back for each take most of the time.
    for entry in range(0, len(inputs) - 3, 4):
        a, b, c, d = inputs[entry], inputs[entry + 1], inputs[entry + 2], inputs[entry + 3]
        of_a = weights[entry * num_units : (entry + 1) * num_units]
        of_b = weights[(entry + 1) * num_units : (entry + 2) * num_units]
        of_c = weights[(entry + 2) * num_units : (entry + 3) * num_units]
        of_d = weights[(entry + 3) * num_units : (entry + 4) * num_units]
        for unit in range(num_units):
            target[unit] += a * of_a[unit] + b * of_b[unit] + c * of_c[unit] + d * of_d[unit]
    for entry in range(len(inputs) - len(inputs) % 4, len(inputs)):
        a, of_a = inputs[entry], weights[entry * num_units : (entry + 1) * num_units]
        for unit in range(num_units):
            target[unit] += a * of_a[unit]
