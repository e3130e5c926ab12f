"""Train a policy with PPO, see it learn, and evaluate it.

python examples/07_training.py

The same from the command line: shoal train --env shoal/CartPole-v0 --total-steps 120000
"""

from __future__ import annotations

from shoal.ppo import PPOTrainer, Report


def show(report: Report) -> None:
    if report.updates % 10 == 0:
        print(
            f"{report.steps:7,} steps, mean return {report.mean_return:6.1f}, {report.steps_per_second:9,.0f} steps/s"
        )


with PPOTrainer(
    env="shoal/CartPole-v0",
    n_envs=64,
    total_steps=120_000,
    rollout_steps=32,
    learning_rate=2e-3,
    learning_rate_schedule="linear",
    gamma=0.98,
    gae_lambda=0.9,
    seed=1,
) as trainer:
    trainer.train(show)
    print("alone, with its most likely actions:", trainer.evaluate(episodes=20))
