"""The arithmetic of acting: a row comes to the same wherever it lies, and next to whichever others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shoal.meta.row_kernels import dense, draw_numbers, gru_step, lstm_step
from shoal.vector.layout import Array

ROWS = [[0], [32], [7, 3], list(range(1, 20)), [5] * 40]


def results_of(kernel: str, units: int, numbers: np.random.Generator) -> Any:
    """What a kernel makes of some of 33 rows."""

    def drawn(*shape: int) -> Array:
        return numbers.normal(size=shape).astype(np.float32)

    def recurrent(step: Any, num_gates: int, num_kept: int) -> Any:
        seen, known, before = drawn(33, num_gates * units), drawn(33, num_gates * units), drawn(33, num_kept * units)

        def result(rows: Any) -> Any:
            after = np.empty_like(before[rows])
            step(seen[rows], known[rows], before[rows], after)
            return after

        return result

    if kernel in ("gru", "lstm"):
        return recurrent(gru_step, 3, 1) if kernel == "gru" else recurrent(lstm_step, 4, 2)
    inputs, noise, weights, biases = drawn(33, 2 * units), drawn(33, units), drawn(2 * units * units), drawn(units)

    def result(rows: Any) -> Any:
        outputs = np.empty_like(noise[rows])
        if kernel == "dense":
            dense(inputs[rows], weights, biases, True, outputs)
        else:
            draw_numbers(inputs[rows], noise[rows], outputs)
        return outputs

    return result


@pytest.mark.parametrize("units", [4, 21, 46, 64])
@pytest.mark.parametrize("kernel", ["gru", "lstm", "dense", "numbers"])
def test_a_row_comes_to_the_same_wherever_it_lies(kernel: str, units: int) -> None:
    result = results_of(kernel, units, np.random.default_rng(0))
    whole = result(np.arange(33))
    for rows in ROWS:
        np.testing.assert_array_equal(result(rows), whole[rows])
