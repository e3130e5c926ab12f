"""The update: change the network so that what went better than expected becomes more likely, but not by too much."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from shoal.ppo.advantages import advantages_of
from shoal.ppo.config import PPOConfig
from shoal.ppo.heads import Head
from shoal.ppo.network import Network
from shoal.ppo.normalising import ObservationScale, RewardScale
from shoal.ppo.rollout import Rollout
from shoal.vector.layout import Array

CHUNK = 16_384
"""So many observations are judged at once."""


class Samples(NamedTuple):
    """Everything that an update needs: (steps, environments, ...) where there is a memory, else one after the other."""

    observations: torch.Tensor
    actions: torch.Tensor
    masks: torch.Tensor | None
    log_probabilities: torch.Tensor
    """Of the policy that acted."""
    values: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor
    is_valid: torch.Tensor
    begins: torch.Tensor
    first_states: torch.Tensor | None


class Updater:
    """A network, and what changes it."""

    def __init__(self, network: Network, head: Head, config: PPOConfig, device: torch.device) -> None:
        self.network, self._head, self._config, self._device = network, head, config, device
        is_fused = device.type in ("cpu", "cuda")
        self.optimiser = torch.optim.Adam(network.parameters(), lr=config.learning_rate, eps=1e-5, fused=is_fused)
        self.shuffling = torch.Generator().manual_seed(config.seed)

    def update(
        self, rollout: Rollout, scale: ObservationScale | None, reward_scale: RewardScale | None, learning_rate: float
    ) -> dict[str, float]:
        """Learn from a rollout; returns what it says about itself."""
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate
        samples = self._prepare(rollout, scale, reward_scale)
        sums = {"policy_loss": 0.0, "value_loss": 0.0, "entropy": 0.0, "approx_kl": 0.0, "clipfrac": 0.0}
        count = 0
        for _ in range(self._config.epochs):
            divergence = 0.0
            for minibatch in self._minibatches(samples):
                losses = self._improve(minibatch)
                for name, value in losses.items():
                    sums[name] += value
                count += 1
                divergence = losses["approx_kl"]
            if self._config.target_kl is not None and divergence > 1.5 * self._config.target_kl:
                break
        return {**{name: value / max(count, 1) for name, value in sums.items()}, **_fit_of(samples)}

    # -- what an update begins with --------------------------------------------------------------------------------------

    @torch.no_grad()
    def _prepare(self, rollout: Rollout, scale: ObservationScale | None, reward_scale: RewardScale | None) -> Samples:
        steps, num_envs = rollout.rewards.shape
        seen = rollout.observations if scale is None else scale(rollout.observations)
        observations = torch.as_tensor(seen).to(self._device)
        begins = torch.as_tensor(rollout.begins).to(self._device)
        features = torch.cat([self.network.features(chunk) for chunk in torch.split(observations.flatten(0, 1), CHUNK)])
        if self.network.memory is not None:
            assert rollout.first_states is not None
            sequence = features.view(steps + 1, num_envs, -1)
            features = self.network.remember(sequence, rollout.first_states, begins).flatten(0, 1)
        values = torch.cat([self.network.value(chunk) for chunk in torch.split(features, CHUNK)]).view(
            steps + 1, num_envs
        )
        actions = torch.as_tensor(rollout.actions).to(self._device)
        masks = None if rollout.masks is None else torch.as_tensor(rollout.masks).to(self._device)
        outputs = torch.cat([self.network.policy(chunk) for chunk in torch.split(features[: steps * num_envs], CHUNK)])
        log_probabilities, _ = self._head.log_probability(
            outputs.view(steps, num_envs, -1), self.network.deviation, actions, masks
        )
        rewards = rollout.rewards
        if reward_scale is not None:
            rewards = reward_scale(rewards, rollout.terminated | rollout.truncated)
        judged = values.cpu().numpy().astype(np.float64)
        advantages = advantages_of(
            rewards, judged, rollout.terminated, rollout.truncated, self._config.gamma, self._config.gae_lambda
        )
        samples = Samples(
            observations[:-1], actions, masks, log_probabilities, values[:-1], self._as_tensor(advantages),
            self._as_tensor(advantages + judged[:-1]), torch.as_tensor(rollout.is_valid).to(self._device), begins[:-1],
            rollout.first_states,
        )  # fmt: skip
        return samples if self.network.memory is not None else _one_after_the_other(samples)

    def _as_tensor(self, array: Array) -> torch.Tensor:
        return torch.as_tensor(array, dtype=torch.float32).to(self._device)

    def _minibatches(self, samples: Samples) -> Iterator[Samples]:
        """Pieces of nearly the same size; of whole sequences, where there is a memory."""
        axis = 1 if self.network.memory is not None else 0
        count = samples.actions.shape[axis]
        order = torch.randperm(count, generator=self.shuffling).to(self._device)
        for index in order.tensor_split(min(self._config.minibatches, count)):
            if not len(index):
                continue
            picked: dict[str, Any] = {
                name: None if value is None else value.index_select(axis, index)
                for name, value in samples._asdict().items()
                if name != "first_states"
            }
            states = None if samples.first_states is None else samples.first_states.index_select(0, index)
            yield Samples(**picked, first_states=states)

    # -- one step of it --------------------------------------------------------------------------------------------------

    def _improve(self, samples: Samples) -> dict[str, float]:
        config = self._config
        is_valid = samples.is_valid if self.network.memory is not None else None
        features = self._features(samples)
        log_probabilities, entropy = self._head.log_probability(
            self.network.policy(features), self.network.deviation, samples.actions, samples.masks
        )
        values = self.network.value(features).squeeze(-1)
        change = log_probabilities - samples.log_probabilities
        ratio = change.exp()
        advantages = samples.advantages
        if config.normalise_advantages:
            advantages = _normalised(advantages, is_valid)
        clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
        policy_loss = _mean(-torch.minimum(advantages * ratio, advantages * clipped), is_valid)
        error = (values - samples.returns) ** 2
        if config.value_clip is not None:
            bounded = samples.values + (values - samples.values).clamp(-config.value_clip, config.value_clip)
            error = torch.maximum(error, (bounded - samples.returns) ** 2)
        value_loss = 0.5 * _mean(error, is_valid)
        mean_entropy = _mean(entropy, is_valid)
        loss = policy_loss + config.value_coefficient * value_loss - config.entropy_coefficient * mean_entropy
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), config.max_gradient_norm)
        self.optimiser.step()
        with torch.no_grad():
            said = torch.stack(
                [
                    policy_loss,
                    value_loss,
                    mean_entropy,
                    _mean((ratio - 1) - change, is_valid),
                    _mean(((ratio - 1).abs() > config.clip).float(), is_valid),
                ]
            )
        return dict(zip(("policy_loss", "value_loss", "entropy", "approx_kl", "clipfrac"), said.tolist(), strict=True))

    def _features(self, samples: Samples) -> torch.Tensor:
        if self.network.memory is None:
            return self.network.features(samples.observations)
        assert samples.first_states is not None
        steps, num_envs = samples.actions.shape[:2]
        features = self.network.features(samples.observations.flatten(0, 1)).view(steps, num_envs, -1)
        return self.network.remember(features, samples.first_states, samples.begins)


def _one_after_the_other(samples: Samples) -> Samples:
    """Only steps that were steps, without regard to whose they are."""
    places = samples.is_valid.flatten().nonzero().squeeze(-1)
    flat: dict[str, Any] = {
        name: None if value is None or name == "first_states" else value.flatten(0, 1).index_select(0, places)
        for name, value in samples._asdict().items()
    }
    return Samples(**flat)


def _mean(values: torch.Tensor, is_valid: torch.Tensor | None) -> torch.Tensor:
    return values.mean() if is_valid is None else (values * is_valid).sum() / is_valid.sum().clamp(min=1)


def _normalised(values: torch.Tensor, is_valid: torch.Tensor | None) -> torch.Tensor:
    if values.numel() < 2:
        return values
    mean = _mean(values, is_valid)
    deviation = _mean((values - mean) ** 2, is_valid).sqrt()
    return (values - mean) / (deviation + 1e-8)


def _fit_of(samples: Samples) -> dict[str, float]:
    """How much of the returns the value explained, before the update: 1 is all, 0 no more than their mean."""
    is_valid = samples.is_valid.flatten()
    returns, values = samples.returns.flatten()[is_valid], samples.values.flatten()[is_valid]
    variance = returns.var(unbiased=False)
    if not len(returns) or variance <= 0:
        return {"explained_variance": float("nan")}
    return {"explained_variance": float(1 - (returns - values).var(unbiased=False) / variance)}
