"""Shoal: everything as it comes, but for the settings that all share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shoal
from benchmarks.training.task import Task
from shoal.ppo import PPOTrainer


def start(task: Task) -> Callable[[int], dict[str, Any]]:
    settings = task.settings
    trainer = PPOTrainer(
        envs=shoal.ParallelEnv(task.env_fns(), backend="auto"),
        n_envs=task.cell.num_envs,
        total_steps=10**12,
        rollout_steps=settings.rollout_steps,
        epochs=settings.epochs,
        minibatches=settings.minibatches,
        learning_rate=settings.learning_rate,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip=settings.clip,
        entropy_coefficient=settings.entropy,
        value_coefficient=settings.value,
        max_gradient_norm=settings.max_gradient_norm,
        hidden_sizes=(settings.hidden, settings.hidden),
    )

    # In the first rollouts it finds out where to run environments, and whether to act for halves of them. Both ways of doing
    # that are tried then, so that they say nothing about the rest.
    while trainer.config.overlap is None:
        trainer.train_episode_vectorized()

    def train(rollouts: int) -> dict[str, Any]:
        shares: dict[str, float] = {}
        for _ in range(rollouts):
            for name, share in trainer.train_episode_vectorized().shares.items():
                shares[name] = shares.get(name, 0.0) + share / rollouts
        plan = trainer.envs.plan
        return {"shares": shares, "backend": plan.backend, "overlap": trainer.config.overlap}

    return train
