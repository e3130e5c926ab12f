"""Settings that work for the worlds that come with Shoal. Whoever says nothing else gets these."""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "shoal/Cage2-v0": {
        "n_envs": 1024,
        "total_steps": 5_000_000,
        "rollout_steps": 50,
        "epochs": 2,
        "minibatches": 8,
        "learning_rate": 2e-3,
        "learning_rate_schedule": "linear",
        "entropy_coefficient": 0.005,
        "env_kwargs": {"actions": "reduced", "scan_memory": True},
        "normalise_rewards": True,
    },
    "shoal/CartPole-v0": {
        "n_envs": 64,
        "total_steps": 300_000,
        "rollout_steps": 32,
        "learning_rate": 2e-3,
        "learning_rate_schedule": "linear",
        "gamma": 0.98,
        "gae_lambda": 0.9,
    },
    "shoal/FrozenLake-v0": {
        "n_envs": 256,
        "total_steps": 1_000_000,
        "rollout_steps": 32,
        "learning_rate": 2e-3,
        "entropy_coefficient": 0.01,
    },
}


def preset_of(env: str) -> dict[str, Any]:
    """The settings for an environment; none for one that is not ours."""
    return dict(PRESETS.get(env, {}))
