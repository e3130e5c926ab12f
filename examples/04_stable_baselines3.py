"""Stable-Baselines3's PPO on sixteen CartPoles in two worker processes. Needs `pip install 'shoal[sb3]'`."""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

import shoal
from shoal.adapters.sb3 import ShoalVecEnv

torch.set_num_threads(1)  # a small network is quicker so, and leaves the processors to the environments
envs = shoal.make("CartPole-v1", num_envs=16, backend="shm", num_workers=2, autoreset_mode="SameStep")
env = VecMonitor(ShoalVecEnv(envs))
model = PPO("MlpPolicy", env, n_steps=64, batch_size=256, n_epochs=8, learning_rate=1e-3, seed=1, device="cpu")
before, _ = evaluate_policy(model, env, n_eval_episodes=16)
model.learn(4_096)
after, _ = evaluate_policy(model, env, n_eval_episodes=16)
print(f"an episode lasted {before:.0f} steps before training, and {after:.0f} steps after it")
env.close()
