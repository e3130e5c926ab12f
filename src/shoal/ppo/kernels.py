"""The arithmetic of small networks, compiled.

A network of two layers of 64 units takes a few microseconds of arithmetic for a step of a few environments, and far longer to
be asked for it operation by operation. Here a whole policy is one call, and so is a whole loss with its gradient. Matrix
products of many rows are left to NumPy.

Numbers are single-precision throughout: a constant of double precision would make the processor do half as many at a time.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from shoal.envs.arithmetic import HALF, ONE, ZERO, add_products, hyperbolic_tangent
from shoal.envs.compiling import kernel, rule
from shoal.vector.layout import Array

compiled = partial(kernel, what="the arithmetic of PPO")
NEVER = np.float32(-1e9)
"""What a masked action is given instead of its number."""
TWO_PI = np.float32(2 * np.pi)

LOWEST = np.float32(-87.0)
"""Below this, the exponential is zero."""
PER_LOG_TWO, LOG_TWO, LOG_TWO_REST = np.float32(1 / np.log(2)), np.float32(0.693359375), np.float32(-2.12194440e-4)
"""The logarithm of two comes in two parts, the first of which has few digits, so that a product with it is exact."""
BIAS, MANTISSA = np.int32(127), np.int32(23)
E2, E3, E4 = np.float32(1 / 2), np.float32(1 / 6), np.float32(1 / 24)
E5, E6, E7 = np.float32(1 / 120), np.float32(1 / 720), np.float32(1 / 5040)


@rule
def exponentials(values: Array, bits: Array, powers: Array) -> np.float32:
    """Replace values that are not above zero by their exponentials, eight at a time; returns the sum.

    It is a power of two, put together from its bits, times the exponential of what is left: by its series, which is exact to
    1e-8 there. ``powers`` are the same bits as numbers.
    """
    for place in range(len(values)):
        value = max(values[place], LOWEST)
        exponent = np.floor(value * PER_LOG_TWO + HALF)
        rest = value - exponent * LOG_TWO - exponent * LOG_TWO_REST
        series = E2 + rest * (E3 + rest * (E4 + rest * (E5 + rest * (E6 + rest * E7))))
        bits[place] = (np.int32(exponent) + BIAS) << MANTISSA
        values[place] = ZERO if values[place] < LOWEST else ONE + rest * (ONE + rest * series)
    total = ZERO
    for place in range(len(values)):
        values[place] *= powers[place]
        total += values[place]
    return total


# -- acting ----------------------------------------------------------------------------------------------------------------


@compiled
def act(observations: Array, weights: Array, sizes: Array, is_tanh: bool, hidden: Array, outputs: Array) -> None:
    """Outputs of a policy. Each row is computed by itself, so it does not matter how many there are.

    Args:
        weights: for every layer, its weights (inputs, units) and its biases, one after the other.
        sizes: of the observation and of every layer.
        hidden: room for the units of two layers.
    """
    last = len(sizes) - 2
    for row in range(len(observations)):
        source = observations[row][: sizes[0]]
        place = 0
        for layer in range(last + 1):
            num_units = sizes[layer + 1]
            target = outputs[row][:num_units] if layer == last else hidden[layer % 2][:num_units]
            end = place + len(source) * num_units
            target[:] = weights[end : end + num_units]
            add_products(target, source, weights[place:end])
            if layer != last:
                if is_tanh:
                    for unit in range(num_units):
                        target[unit] = hyperbolic_tangent(target[unit])
                else:
                    for unit in range(num_units):
                        target[unit] = max(target[unit], ZERO)
            source, place = target, end + num_units


@rule
def with_mask(outputs: Array, masks: Array, row: int, masked: Array) -> None:
    """Outputs for a row, without what must not be chosen. Masks without rows are none."""
    masked[:] = outputs[row]
    if len(masks):
        for option in range(len(masked)):
            if not masks[row, option]:
                masked[option] = NEVER


@rule
def weigh(outputs: Array, weights: Array, bits: Array, powers: Array) -> tuple[np.float32, np.float32]:
    """How likely each option of a choice is, up to a factor; returns the sum, and the largest output."""
    largest = NEVER
    for option in range(len(outputs)):
        largest = max(largest, outputs[option])
    for option in range(len(outputs)):
        weights[option] = outputs[option] - largest
    return exponentials(weights, bits, powers), largest


@compiled
def draw_choices(outputs: Array, masks: Array, chances: Array, ends: Array, actions: Array) -> None:
    """Each choice with its probability."""
    masked, room = np.empty(outputs.shape[1], np.float32), np.empty(outputs.shape[1], np.float32)
    bits = np.empty(outputs.shape[1], np.int32)
    powers = bits.view(np.float32)
    for row in range(len(outputs)):
        with_mask(outputs, masks, row, masked)
        begin = 0
        for number in range(len(ends)):
            end = ends[number]
            weights = room[begin:end]
            total, _ = weigh(masked[begin:end], weights, bits, powers)
            left, chosen = chances[row, number] * total, 0
            for option in range(len(weights)):
                # One that cannot happen is not chosen either where rounding has left a rest.
                if weights[option] > ZERO:
                    chosen = option
                    left -= weights[option]
                    if left < ZERO:
                        break
            actions[row, number] = chosen
            begin = end


# -- learning --------------------------------------------------------------------------------------------------------------


@compiled
def activate(units: Array, biases: Array, is_tanh: bool) -> None:
    """Add the biases and apply the activation, in place."""
    num_units = len(biases)
    for row in range(len(units)):
        if is_tanh:
            for unit in range(num_units):
                units[row, unit] = hyperbolic_tangent(units[row, unit] + biases[unit])
        else:
            for unit in range(num_units):
                units[row, unit] = max(units[row, unit] + biases[unit], ZERO)


@compiled
def through_activation(gradient: Array, units: Array, is_tanh: bool, biases: Array) -> None:
    """Take the gradient back through the activation, in place, and add it up for the biases."""
    num_units = len(biases)
    biases[:] = ZERO
    for row in range(len(units)):
        if is_tanh:
            for unit in range(num_units):
                gradient[row, unit] *= ONE - units[row, unit] * units[row, unit]
                biases[unit] += gradient[row, unit]
        else:
            for unit in range(num_units):
                if units[row, unit] <= ZERO:
                    gradient[row, unit] = ZERO
                biases[unit] += gradient[row, unit]


@rule
def clipped_push(change: np.float32, advantage: np.float32, clip: np.float32, said: Array) -> np.float32:
    """The gradient of the clipped loss with respect to an action's log-probability, and what it says about itself."""
    ratio = np.exp(change)
    bounded = min(max(ratio, ONE - clip), ONE + clip)
    said[0] -= min(advantage * ratio, advantage * bounded)
    said[3] += (ratio - ONE) - change
    if bounded != ratio:
        said[4] += ONE
        if advantage * bounded < advantage * ratio:
            return ZERO
    push: np.float32 = -advantage * ratio
    return push


@compiled
def choices_loss(
    outputs: Array, masks: Array, actions: Array, before: Array, advantages: Array, ends: Array, clip: np.float32,
    entropy_weight: np.float32, share: np.float32, gradient: Array, said: Array,
) -> None:  # fmt: skip
    """The clipped loss of choices, and its gradient. Of each choice, something must be possible.

    Args:
        before: log-probabilities of the actions when they were drawn.
        share: one divided by how many samples there are in all.
        gradient: with respect to the outputs.
        said: sums of the loss, of nothing, of the entropy, of the divergence, and of how many were clipped.
    """
    masked, probabilities = np.empty(outputs.shape[1], np.float32), np.empty(outputs.shape[1], np.float32)
    slopes, bits = np.empty(outputs.shape[1], np.float32), np.empty(outputs.shape[1], np.int32)
    powers = bits.view(np.float32)
    for row in range(len(outputs)):
        with_mask(outputs, masks, row, masked)
        change, begin = -before[row], 0
        for number in range(len(ends)):
            end = ends[number]
            logs, weights, slope = masked[begin:end], probabilities[begin:end], slopes[begin:end]
            total, largest = weigh(logs, weights, bits, powers)
            shift, per_total, entropy = largest + np.log(total), ONE / total, ZERO
            for option in range(len(logs)):
                logs[option] -= shift
                weights[option] *= per_total
                entropy -= weights[option] * logs[option]
            for option in range(len(logs)):
                slope[option] = entropy_weight * (logs[option] + entropy)
            said[2] += entropy
            change += logs[actions[row, number]]
            begin = end
        push = clipped_push(change, advantages[row], clip, said)
        of_row = gradient[row]
        for option in range(len(of_row)):
            of_row[option] = share * probabilities[option] * (slopes[option] - push)
        begin = 0
        for number in range(len(ends)):
            of_row[begin + actions[row, number]] += share * push
            begin = ends[number]


@compiled
def choices_log_probability(outputs: Array, masks: Array, actions: Array, ends: Array, found: Array) -> None:
    """How likely these actions are."""
    masked, room = np.empty(outputs.shape[1], np.float32), np.empty(outputs.shape[1], np.float32)
    bits = np.empty(outputs.shape[1], np.int32)
    powers = bits.view(np.float32)
    for row in range(len(outputs)):
        with_mask(outputs, masks, row, masked)
        found[row], begin = ZERO, 0
        for number in range(len(ends)):
            end = ends[number]
            logs = masked[begin:end]
            total, largest = weigh(logs, room[begin:end], bits, powers)
            found[row] += logs[actions[row, number]] - (largest + np.log(total))
            begin = end


@compiled
def numbers_loss(
    outputs: Array, log_deviation: Array, actions: Array, before: Array, advantages: Array, clip: np.float32,
    entropy_weight: np.float32, share: np.float32, gradient: Array, of_deviation: Array, said: Array,
) -> None:  # fmt: skip
    """The clipped loss of normally distributed actions, and its gradients with respect to means and log-deviations."""
    width = len(log_deviation)
    deviation, entropy = np.exp(log_deviation), ZERO
    for entry in range(width):
        of_deviation[entry] = ZERO
        entropy += log_deviation[entry] + HALF + HALF * np.log(TWO_PI)
    for row in range(len(outputs)):
        change = HALF * width - entropy - before[row]
        for entry in range(width):
            distance = (actions[row, entry] - outputs[row, entry]) / deviation[entry]
            gradient[row, entry] = distance
            change -= HALF * distance * distance
        said[2] += entropy
        push = share * clipped_push(np.float32(change), advantages[row], clip, said)
        for entry in range(width):
            distance = gradient[row, entry]
            gradient[row, entry] = push * distance / deviation[entry]
            of_deviation[entry] += push * (distance * distance - ONE) - share * entropy_weight


@compiled
def numbers_log_probability(outputs: Array, log_deviation: Array, actions: Array, found: Array) -> None:
    """How likely these actions are."""
    deviation = np.exp(log_deviation)
    for row in range(len(outputs)):
        found[row] = ZERO
        for entry in range(len(log_deviation)):
            distance = (actions[row, entry] - outputs[row, entry]) / deviation[entry]
            found[row] -= HALF * distance * distance + log_deviation[entry] + HALF * np.log(TWO_PI)


@compiled
def value_loss(
    values: Array, before: Array, returns: Array, clip: np.float32, weight: np.float32, gradient: Array, said: Array
) -> None:
    """Half of the squared error, and its gradient. A clip of zero or less is none."""
    for row in range(len(values)):
        error = values[row, 0] - returns[row]
        slope = error
        if clip > ZERO:
            change = values[row, 0] - before[row]
            bounded = before[row] + min(max(change, -clip), clip) - returns[row]
            if bounded * bounded > error * error:
                error = bounded
                slope = bounded if abs(change) < clip else ZERO
        said[1] += HALF * error * error
        gradient[row, 0] = weight * slope


@compiled
def adam(
    parameters: Array, gradient: Array, means: Array, squares: Array, limit: np.float32, rate: np.float32,
    decay: np.float32, square_decay: np.float32, correction: np.float32, tiny: np.float32,
) -> None:  # fmt: skip
    """One step of Adam, with a gradient that is shortened to ``limit``.

    Args:
        rate: the learning rate, already corrected for the means' beginning at zero.
        correction: of the root of the squares, for the same reason.
    """
    length = ZERO
    for number in range(len(gradient)):
        length += gradient[number] * gradient[number]
    factor = min(ONE, limit / (np.sqrt(length) + np.float32(1e-6)))
    for number in range(len(parameters)):
        slope = gradient[number] * factor
        means[number] += (ONE - decay) * (slope - means[number])
        squares[number] = square_decay * squares[number] + (ONE - square_decay) * slope * slope
        parameters[number] -= rate * means[number] / (np.sqrt(squares[number]) * correction + tiny)
