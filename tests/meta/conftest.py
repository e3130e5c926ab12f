"""What tests of meta-RL and its command stand on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.runs.fixtures import here, no_picture, usual_terminal


@pytest.fixture
def one_thread() -> Iterator[None]:
    """So small products take far longer with several threads, where other processes are at work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


__all__ = ["here", "no_picture", "one_thread", "usual_terminal"]
