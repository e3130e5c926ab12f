"""A gated recurrent unit over whole sequences, forwards and backwards, for small batches on the CPU.

Torch's own takes several calls for every step of time, and adds up the gradients of the weights step by step. Here a step is
one matrix product and one compiled loop, and the gradients of the weights are one product for all of time.

It computes what ``torch.nn.GRU`` computes, with parameters of the same names.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from shoal.envs.arithmetic import ONE, hyperbolic_tangent
from shoal.meta.row_kernels import compiled, sigmoid
from shoal.vector.layout import Array


@compiled
def step_forward(seen: Array, known: Array, before: Array, gates: Array, after: Array) -> None:
    """A step of time, in learning and in acting. Gates are reset, update and candidate; they are kept for the way back."""
    size = before.shape[1]
    for row in range(len(before)):
        of_row, its, was = gates[row], seen[row], known[row]
        for unit in range(2 * size):
            of_row[unit] = sigmoid(its[unit] + was[unit])
        for unit in range(size):
            candidate = hyperbolic_tangent(its[2 * size + unit] + of_row[unit] * was[2 * size + unit])
            of_row[2 * size + unit] = candidate
            after[row, unit] = candidate + of_row[size + unit] * (before[row, unit] - candidate)


@compiled
def step_backward(
    slope: Array, gates: Array, known: Array, before: Array, of_seen: Array, of_known: Array, of_before: Array
) -> None:
    """The same step on the way back: from the slope of what came after it to the slopes of what it was given."""
    size = before.shape[1]
    for row in range(len(before)):
        of_row, its, was = gates[row], of_seen[row], of_known[row]
        for unit in range(size):
            reset, update, candidate = of_row[unit], of_row[size + unit], of_row[2 * size + unit]
            down = slope[row, unit]
            of_candidate = down * (ONE - update) * (ONE - candidate * candidate)
            of_reset = of_candidate * known[row, 2 * size + unit] * reset * (ONE - reset)
            of_update = down * (before[row, unit] - candidate) * update * (ONE - update)
            its[unit] = was[unit] = of_reset
            its[size + unit] = was[size + unit] = of_update
            its[2 * size + unit] = of_candidate
            was[2 * size + unit] = of_candidate * reset
            of_before[row, unit] = down * update


class _Through(torch.autograd.Function):
    """All steps of time, from no memory at all."""

    @staticmethod
    def forward(ctx: Any, seen: torch.Tensor, weights: torch.Tensor, biases: torch.Tensor) -> torch.Tensor:
        steps, count, size = len(seen), seen.shape[1], weights.shape[1]
        states, gates, known = (torch.empty(steps + 1, count, size), torch.empty_like(seen), torch.empty_like(seen))
        states[0] = 0.0
        transposed = weights.t().contiguous()
        arrays = [part.detach().numpy() for part in (seen, known, states, gates)]
        for step, (state, room) in enumerate(zip(states, known, strict=False)):
            torch.addmm(biases, state, transposed, out=room)
            step_forward(arrays[0][step], arrays[1][step], arrays[2][step], arrays[3][step], arrays[2][step + 1])
        ctx.save_for_backward(weights, states, gates, known)
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: torch.Tensor) -> Any:
        weights, states, gates, known = ctx.saved_tensors
        of_seen, of_known = torch.empty_like(gates), torch.empty_like(gates)
        slope, of_before = slopes[-1].clone(), torch.empty_like(slopes[-1])
        here, there = slope.numpy(), of_before.numpy()
        arrays = [part.numpy() for part in (gates, known, states, of_seen, of_known)]
        for step in range(len(gates) - 1, -1, -1):
            step_backward(
                here, arrays[0][step], arrays[1][step], arrays[2][step], arrays[3][step], arrays[4][step], there
            )
            torch.addmm(of_before, of_known[step], weights, out=slope)
            if step:
                slope += slopes[step - 1]
        flat = of_known.flatten(0, 1)
        return of_seen, flat.t() @ states[:-1].flatten(0, 1), flat.sum(dim=0)


class QuickGRU(nn.GRU):
    """``torch.nn.GRU`` of one layer, for sequences that begin with nothing in memory, on the CPU."""

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        """What is remembered after every step, and after the last one."""
        of_inputs, of_states, input_biases, state_biases = self.parameters()
        seen = nn.functional.linear(inputs, of_inputs, input_biases)
        remembered: torch.Tensor = _Through.apply(seen, of_states, state_biases)  # type: ignore[no-untyped-call]
        return remembered, remembered[-1:]
