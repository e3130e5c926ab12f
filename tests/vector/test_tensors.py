"""Results as torch tensors over the memory of the arrays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import shoal
from shoal import ParallelEnv
from tests.comparing import difference
from tests.envs import SpaceEnv, WalkingEnv, counting

Make = Callable[..., ParallelEnv]
MIXED = spaces.Dict(
    {"numbers": spaces.Box(-1, 1, (2,), np.float32), "parts": spaces.Tuple([spaces.Discrete(9), spaces.Text(5)])}
)


def as_arrays(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.numpy()
    if isinstance(value, dict):
        return {key: as_arrays(part) for key, part in value.items()}
    return tuple(map(as_arrays, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("copy", [True, False])
def test_tensors_hold_what_the_arrays_hold(make: Make, copy: bool) -> None:
    arrays = make([lambda: SpaceEnv(MIXED, spaces.Discrete(2))] * 3)
    tensors = make([lambda: SpaceEnv(MIXED, spaces.Discrete(2))] * 3, output="torch", copy=copy)
    assert not difference(arrays.reset(seed=1), as_arrays(tensors.reset(seed=1)))
    for _ in range(6):
        result: Any = tensors.step(torch.tensor([0, 1, 0]))
        assert isinstance(result[0]["numbers"], torch.Tensor)
        assert all(isinstance(part, torch.Tensor) for part in result[1:4])
        assert isinstance(result[0]["parts"][1], tuple), "words stay words"
        assert not difference(arrays.step([0, 1, 0]), as_arrays(result))


def test_tensors_without_a_copy_are_the_arena(make: Make) -> None:
    envs = make([WalkingEnv] * 2, output="torch", copy=False, lease=0)
    first, _ = envs.reset(seed=1)
    second, *_ = envs.step([0, 0])
    assert first.data_ptr() == second.data_ptr()


def test_whoever_is_back_first_comes_as_tensors_too(make: Make) -> None:
    envs = make([counting(9)] * 3, output="torch")
    envs.reset(seed=0)
    envs.send(torch.tensor([2, 3]), [2, 0])
    batch = envs.recv(min_envs=2)
    assert sorted(batch.reward.tolist()) == [2.0, 3.0]
    assert batch.observation.dtype == torch.float32


def test_an_output_that_does_not_exist_is_refused() -> None:
    with pytest.raises(shoal.ConfigurationError, match='output must be "numpy" or "torch", got \'jax\''):
        ParallelEnv([counting()], output="jax")


def test_without_torch_one_is_told_how_to_get_it() -> None:
    code = """
import sys
sys.modules["torch"] = None
import gymnasium, shoal
try:
    shoal.make("CartPole-v1", 2, output="torch")
except shoal.ConfigurationError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    expected = "output=\"torch\" needs PyTorch, which is not installed: pip install 'shoal[train]'\n"
    assert (done.stdout, done.stderr) == (expected, "")
