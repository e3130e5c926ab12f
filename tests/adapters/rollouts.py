"""Whole rollouts through Stable-Baselines3's interface, to be compared bit by bit."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv


def actions_for(env: VecEnv, steps: int) -> list[Any]:
    space = copy.deepcopy(env.action_space)
    space.seed(11)
    batches = [[space.sample() for _ in range(env.num_envs)] for _ in range(steps)]
    return batches if isinstance(space, spaces.Dict) else [np.array(batch) for batch in batches]


def rollout(env: VecEnv, steps: int = 12) -> list[Any]:
    """Everything that a seeded, an unseeded and two resets with options give, and steps after each."""
    inner = env.unwrapped
    results: list[Any] = [env.seed(3)]
    every: list[Any] = [{"start": 2}, [{"start": place} if place % 2 else {} for place in range(env.num_envs)]]
    for options in [None, None, *every]:
        if options is not None:
            env.set_options(options)
        results += [env.reset(), copy.deepcopy(inner.reset_infos)]
        for actions in actions_for(env, steps):
            results += [env.step(actions), copy.deepcopy(inner.reset_infos)]
    return results
