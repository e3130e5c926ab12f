"""Stable-Baselines3's algorithms train on Shoal unchanged, and learn the very same."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env as make_dummy_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from shoal.adapters.sb3 import make_vec_env
from tests.adapters.worlds import world

ALGORITHMS: dict[str, tuple[Any, Any, dict[str, Any], int]] = {
    "PPO": (PPO, "CartPole-v1", {"n_steps": 32, "batch_size": 32, "n_epochs": 2}, 400),
    "PPO with continuous actions": (PPO, "Pendulum-v1", {"n_steps": 32, "batch_size": 32, "n_epochs": 2}, 256),
    "PPO with binary actions": (PPO, world("multi-binary"), {"n_steps": 16, "batch_size": 32, "n_epochs": 1}, 128),
    "DQN": (DQN, "CartPole-v1", {"learning_starts": 50, "batch_size": 16, "target_update_interval": 40}, 200),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker so, above all on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def train(env: VecEnv, name: str) -> BaseAlgorithm:
    algorithm, _, keywords, steps = ALGORITHMS[name]
    model: BaseAlgorithm = algorithm("MlpPolicy", env, seed=5, device="cpu", **keywords)
    return model.learn(steps)


@functools.cache
def policy_of_theirs(name: str, *, normalises: bool = False) -> dict[str, Any]:
    """What is learned on Stable-Baselines3's own environments, which is the same whatever it is compared with."""
    env: VecEnv = make_dummy_vec_env(ALGORITHMS[name][1], 4, seed=1)
    learned = train(VecNormalize(env) if normalises else env, name).policy.state_dict()
    return {key: value.clone() for key, value in learned.items()}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_training_gives_the_same_policy_as_on_dummy_vec_env(backend: str, name: str) -> None:
    ours = make_vec_env(ALGORITHMS[name][1], 4, seed=1, backend=backend, num_workers=2, start_method="fork")
    policies = [policy_of_theirs(name), train(ours, name).policy.state_dict()]
    ours.close()
    assert len(policies[0]) > 4
    assert policies[0].keys() == policies[1].keys()
    assert all(torch.equal(policies[0][key], policies[1][key]) for key in policies[0])


def test_training_behind_vec_normalize_gives_the_same_policy(backend: str) -> None:
    ours = make_vec_env("CartPole-v1", 4, seed=1, backend=backend, num_workers=2, start_method="fork")
    policies = [policy_of_theirs("PPO", normalises=True), train(VecNormalize(ours), "PPO").policy.state_dict()]
    ours.close()
    assert all(torch.equal(policies[0][key], policies[1][key]) for key in policies[0])


@pytest.mark.soak
def test_ppo_learns_cart_pole_on_shared_memory() -> None:
    env = make_vec_env("CartPole-v1", 8, seed=0, backend="shm", num_workers=2)
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=128, n_epochs=8, learning_rate=1e-3, seed=1, device="cpu")
    untrained, _ = evaluate_policy(model, env, n_eval_episodes=16)
    model.learn(6_000)
    trained, _ = evaluate_policy(model, env, n_eval_episodes=16)
    env.close()
    # Who acts at random lasts 22 steps.
    assert float(np.mean(untrained)) < 22
    assert float(np.mean(trained)) > 60
