"""Bit-by-bit comparison of results, whatever they are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import GraphInstance
from gymnasium.vector import VectorEnv


def difference(left: Any, right: Any, path: str = "result") -> str:
    """Where two results differ first; empty if they are the same in type and every bit."""
    if type(left) is not type(right):
        return f"{path}: {type(left).__name__} and {type(right).__name__}"
    if isinstance(left, np.ndarray):
        if left.dtype != right.dtype or left.shape != right.shape:
            return f"{path}: {left.dtype}{left.shape} and {right.dtype}{right.shape}"
        if left.dtype == object:
            return difference(left.tolist(), right.tolist(), path)
        return "" if left.tobytes() == right.tobytes() else f"{path}: {left} and {right}"
    if isinstance(left, dict):
        if list(left) != list(right):
            return f"{path}: keys {list(left)} and {list(right)}"
        return next(filter(None, (difference(left[key], right[key], f"{path}[{key!r}]") for key in left)), "")
    if isinstance(left, GraphInstance):
        return difference(tuple(left), tuple(right), path)
    if isinstance(left, list | tuple):
        if len(left) != len(right):
            return f"{path}: {len(left)} and {len(right)} items"
        pairs = enumerate(zip(left, right, strict=True))
        return next(filter(None, (difference(a, b, f"{path}[{i}]") for i, (a, b) in pairs)), "")
    return "" if left == right or (left != left and right != right) else f"{path}: {left!r} and {right!r}"


def rollout(envs: VectorEnv[Any, Any, Any], steps: int, seed: int = 7, options: Any = None) -> list[Any]:
    """Everything that ``steps`` random steps give, from reset to end."""
    envs.action_space.seed(seed)
    return [envs.reset(seed=seed, options=options), *(envs.step(envs.action_space.sample()) for _ in range(steps))]
