"""Stable-Baselines3: its PPO on one of its two VecEnvs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from benchmarks.training.task import EnvFn, Task


def start(task: Task, kind: str) -> Callable[[int], dict[str, Any]]:
    settings = task.settings
    # As make_vec_env does it. Forking is not its default, but makes no difference once environments run.
    env_fns = [_Monitored(env_fn) for env_fn in task.env_fns()]
    envs = DummyVecEnv(env_fns) if kind == "dummy" else SubprocVecEnv(env_fns, start_method="fork")
    batch = settings.rollout_steps * task.cell.num_envs
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=settings.rollout_steps,
        batch_size=batch // settings.minibatches,
        n_epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip_range=settings.clip,
        ent_coef=settings.entropy,
        vf_coef=settings.value,
        max_grad_norm=settings.max_gradient_norm,
        policy_kwargs={"net_arch": {"pi": [settings.hidden] * 2, "vf": [settings.hidden] * 2}},
        device="cpu",
    )

    def train(rollouts: int) -> dict[str, Any]:
        model.learn(rollouts * batch, reset_num_timesteps=False)
        return {}

    return train


class _Monitored:
    """An environment that counts its returns, made where it runs."""

    def __init__(self, env_fn: EnvFn) -> None:
        self._env_fn = env_fn

    def __call__(self) -> Monitor[Any, Any]:
        return Monitor(self._env_fn())
