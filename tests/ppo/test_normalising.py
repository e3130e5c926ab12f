"""What observations and rewards are shifted and scaled by."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from shoal.ppo import PPOTrainer
from shoal.ppo.normalising import RewardScale


class Once(gymnasium.Env[Any, Any]):
    """Every episode is one step, for which there is the same reward."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), 5.0, True, False, {}


def test_resets_are_no_rewards_of_nothing() -> None:
    with PPOTrainer(
        env=f"{__name__}:Once", n_envs=3, total_steps=60, rollout_steps=10, normalise_rewards=True, torch_threads=1,
        backend="serial",
    ) as trainer:  # fmt: skip
        last = trainer.train()
        assert trainer.reward_scale is not None
        moments = trainer.reward_scale.moments
        assert (float(moments.mean), float(moments.variance), moments.count) == (5.0, 0.0, last.steps)


def test_rewards_are_scaled_by_the_returns_of_steps_that_were_ones() -> None:
    random, gamma = np.random.default_rng(0), 0.9
    scale, seen = RewardScale(4, gamma), []
    totals, is_due = np.zeros(4), np.zeros(4, np.bool_)
    for _ in range(3):
        rewards, ended, is_valid = np.zeros((20, 4)), random.random((20, 4)) < 0.3, np.empty((20, 4), np.bool_)
        for step in range(20):
            is_valid[step] = ~is_due
            ended[step] &= ~is_due
            rewards[step] = random.normal(2, 1, 4) * ~is_due
            totals = totals * gamma + rewards[step]
            seen += totals[~is_due].tolist()
            totals[ended[step]] = 0
            is_due = ended[step]
        found = scale(rewards, ended, is_valid)
        np.testing.assert_allclose(found, rewards / np.std(seen), rtol=1e-6)
