"""A training loop in one file, as CleanRL writes them, on one of Gymnasium's vector environments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from torch import nn
from torch.distributions import Categorical

from benchmarks.training.task import EnvFn, Settings, Task


def start(task: Task, kind: str) -> Callable[[int], dict[str, Any]]:
    env_fns = [_Counted(env_fn) for env_fn in task.env_fns()]
    envs = SyncVectorEnv(env_fns) if kind == "sync" else AsyncVectorEnv(env_fns, context="fork")
    loop = Loop(envs, task.settings)

    def train(rollouts: int) -> dict[str, Any]:
        for _ in range(rollouts):
            loop.turn()
        return {}

    return train


class _Counted:
    """An environment that counts its returns, made where it runs."""

    def __init__(self, env_fn: EnvFn) -> None:
        self._env_fn = env_fn

    def __call__(self) -> gymnasium.Env[Any, Any]:
        return gymnasium.wrappers.RecordEpisodeStatistics(self._env_fn())


def _layer(inputs: int, units: int, gain: float = math.sqrt(2)) -> nn.Linear:
    layer = nn.Linear(inputs, units)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def _stack(inputs: int, units: int, outputs: int, gain: float) -> nn.Sequential:
    return nn.Sequential(
        _layer(inputs, units), nn.Tanh(), _layer(units, units), nn.Tanh(), _layer(units, outputs, gain)
    )


class Loop:
    """Rollout and update, tensor by tensor."""

    def __init__(self, envs: Any, settings: Settings) -> None:
        self.envs, self.settings = envs, settings
        size, num_actions = int(np.prod(envs.single_observation_space.shape)), int(envs.single_action_space.n)
        self.actor = _stack(size, settings.hidden, num_actions, 0.01)
        self.critic = _stack(size, settings.hidden, 1, 1.0)
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimiser = torch.optim.Adam(self.parameters, lr=settings.learning_rate, eps=1e-5)
        shape = (settings.rollout_steps, envs.num_envs)
        self.observations = torch.zeros((*shape, size))
        self.actions, self.logs = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape)
        self.rewards, self.ends, self.values = torch.zeros(shape), torch.zeros(shape), torch.zeros(shape)
        first, _ = envs.reset(seed=0)
        self.following, self.has_ended = torch.as_tensor(first), torch.zeros(envs.num_envs)

    def turn(self) -> None:
        self._roll_out()
        returns, advantages = self._judge()
        self._update(returns, advantages)

    def _roll_out(self) -> None:
        for step in range(self.settings.rollout_steps):
            self.observations[step], self.ends[step] = self.following, self.has_ended
            with torch.no_grad():
                choice = Categorical(logits=self.actor(self.following))
                action = choice.sample()
                self.values[step] = self.critic(self.following).flatten()
            self.actions[step], self.logs[step] = action, choice.log_prob(action)
            observation, reward, terminated, truncated, _ = self.envs.step(action.numpy())
            self.rewards[step] = torch.as_tensor(reward, dtype=torch.float32)
            self.following = torch.as_tensor(observation)
            self.has_ended = torch.as_tensor(np.logical_or(terminated, truncated), dtype=torch.float32)

    @torch.no_grad()
    def _judge(self) -> tuple[torch.Tensor, torch.Tensor]:
        settings = self.settings
        following = self.critic(self.following).flatten()
        advantages, last = torch.zeros_like(self.rewards), torch.zeros(self.envs.num_envs)
        goes_on = 1.0 - self.has_ended
        for step in reversed(range(settings.rollout_steps)):
            surprise = self.rewards[step] + settings.gamma * following * goes_on - self.values[step]
            advantages[step] = last = surprise + settings.gamma * settings.gae_lambda * goes_on * last
            following, goes_on = self.values[step], 1.0 - self.ends[step]
        return advantages + self.values, advantages

    def _update(self, returns: torch.Tensor, advantages: torch.Tensor) -> None:
        settings = self.settings
        count = self.rewards.numel()
        observations = self.observations.flatten(0, 1)
        actions, logs = self.actions.flatten(), self.logs.flatten()
        flat_returns, flat_advantages = returns.flatten(), advantages.flatten()
        for _ in range(settings.epochs):
            for chosen in torch.randperm(count).split(count // settings.minibatches):
                choice = Categorical(logits=self.actor(observations[chosen]))
                change = choice.log_prob(actions[chosen]) - logs[chosen]
                ratio = change.exp()
                gain = flat_advantages[chosen]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                bounded = ratio.clamp(1 - settings.clip, 1 + settings.clip)
                policy_loss = torch.max(-gain * ratio, -gain * bounded).mean()
                value_loss = 0.5 * ((self.critic(observations[chosen]).flatten() - flat_returns[chosen]) ** 2).mean()
                entropy = choice.entropy().mean()
                loss = policy_loss + settings.value * value_loss - settings.entropy * entropy
                self.optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.parameters, settings.max_gradient_norm)
                self.optimiser.step()
                with torch.no_grad():
                    ((ratio - 1) - change).mean(), ((ratio - 1).abs() > settings.clip).float().mean().item()
