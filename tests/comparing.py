"""Whole rollouts, to be compared bit by bit."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import VectorEnv

from shoal.vector.sameness import difference

__all__ = ["difference", "rollout"]


def rollout(envs: VectorEnv[Any, Any, Any], steps: int, seed: int = 7, options: Any = None) -> list[Any]:
    """Everything that ``steps`` random steps give, from reset to end."""
    envs.action_space.seed(seed)
    return [envs.reset(seed=seed, options=options), *(envs.step(envs.action_space.sample()) for _ in range(steps))]
