"""The quick GRU is torch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from shoal.meta.gru import QuickGRU

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(("steps", "count", "inputs", "units"), [(1, 1, 1, 1), (7, 3, 5, 13), (20, 32, 9, 64)])
def test_it_computes_what_torch_does_and_so_do_its_gradients(steps: int, count: int, inputs: int, units: int) -> None:
    torch.manual_seed(0)
    ours, theirs = QuickGRU(inputs, units), nn.GRU(inputs, units)
    theirs.load_state_dict(ours.state_dict())
    given = [torch.randn(steps, count, inputs, requires_grad=True) for _ in range(2)]
    with torch.no_grad():
        given[1].copy_(given[0])
    weights = torch.randn(steps, count, units)
    found = []
    for gru, sequence in zip((ours, theirs), given, strict=True):
        remembered, last = gru(sequence)
        ((remembered * weights).sum() + last.square().sum()).backward()
        found.append([remembered, last, sequence.grad, *(parameter.grad for parameter in gru.parameters())])
    for mine, his in zip(*found, strict=True):
        torch.testing.assert_close(mine, his, rtol=1e-4, atol=1e-5)
