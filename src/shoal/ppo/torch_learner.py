"""Learning with any network on any device: torch finds the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from shoal.ppo.config import PPOConfig
from shoal.ppo.heads import Head
from shoal.ppo.learning import Samples
from shoal.ppo.network import Network
from shoal.vector.layout import Array

CHUNK = 16_384
"""So many observations are judged at once."""


class TorchLearner:
    """Changes the weights of a network. Where there is a memory, it learns from whole sequences."""

    def __init__(self, network: Network, head: Head, config: PPOConfig, device: torch.device) -> None:
        self._network, self._head, self._config, self._device = network, head, config, device
        self._optimiser = torch.optim.Adam(
            network.parameters(), lr=config.learning_rate, eps=1e-5, fused=device.type in ("cpu", "cuda")
        )

    @torch.no_grad()
    def judge(
        self, observations: Array, begins: Array, first_states: torch.Tensor | None, actions: Array, masks: Array | None
    ) -> tuple[Array, Array]:
        """Values of all observations, and log-probabilities of the actions that followed all but the last."""
        steps, num_envs = observations.shape[:2]
        rows = self._here(observations).flatten(0, 1)
        features = torch.cat([self._network.features(chunk) for chunk in torch.split(rows, CHUNK)])
        if self._network.memory is not None:
            assert first_states is not None
            sequence = features.view(steps, num_envs, -1)
            features = self._network.remember(sequence, first_states, self._here(begins)).flatten(0, 1)
        values = torch.cat([self._network.value(chunk) for chunk in torch.split(features, CHUNK)])
        outputs = torch.cat([self._network.policy(chunk) for chunk in torch.split(features[:-num_envs], CHUNK)])
        log_probabilities, _ = self._head.log_probability(
            outputs.view(steps - 1, num_envs, -1),
            self._network.deviation,
            self._here(actions),
            None if masks is None else self._here(masks),
        )
        return values.view(steps, num_envs).cpu().numpy(), log_probabilities.cpu().numpy()

    def take(self, samples: Samples) -> Array:
        """From now on, learn from these: steps where there is no memory, else the sequences of whole environments."""
        here = {name: self._here(part) for name, part in samples._asdict().items() if isinstance(part, np.ndarray)}
        if self._network.memory is not None:
            self._parts, self._states = here, samples.first_states
            return np.arange(samples.is_valid.shape[1])
        self._parts, self._states = {name: part.flatten(0, 1) for name, part in here.items()}, None
        return np.flatnonzero(samples.is_valid)

    def improve(self, chosen: Array, rate: float) -> Array:
        """One step with some of the samples. Returns the means of what it says about itself."""
        config, network = self._config, self._network
        parts = self._chosen(chosen)
        is_valid = None if network.memory is None else parts["is_valid"]
        features = self._features(parts, chosen)
        log_probabilities, entropy = self._head.log_probability(
            network.policy(features), network.deviation, parts["actions"], parts.get("masks")
        )
        values = network.value(features).squeeze(-1)
        change = log_probabilities - parts["log_probabilities"]
        ratio = change.exp()
        advantages = parts["advantages"]
        if config.normalise_advantages:
            advantages = _normalised(advantages, is_valid)
        clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
        policy_loss = _mean(-torch.minimum(advantages * ratio, advantages * clipped), is_valid)
        error = (values - parts["returns"]) ** 2
        if config.value_clip is not None:
            bounded = parts["values"] + (values - parts["values"]).clamp(-config.value_clip, config.value_clip)
            error = torch.maximum(error, (bounded - parts["returns"]) ** 2)
        value_loss = 0.5 * _mean(error, is_valid)
        mean_entropy = _mean(entropy, is_valid)
        loss = policy_loss + config.value_coefficient * value_loss - config.entropy_coefficient * mean_entropy
        self._descend(loss, rate)
        with torch.no_grad():
            divergence = _mean((ratio - 1) - change, is_valid)
            num_clipped = _mean(((ratio - 1).abs() > config.clip).float(), is_valid)
            said: Array = torch.stack([policy_loss, value_loss, mean_entropy, divergence, num_clipped]).cpu().numpy()
        return said

    def _chosen(self, chosen: Array) -> dict[str, torch.Tensor]:
        index = torch.from_numpy(chosen).to(self._device)
        axis = 0 if self._network.memory is None else 1
        return {name: part.index_select(axis, index) for name, part in self._parts.items()}

    def _features(self, parts: dict[str, torch.Tensor], chosen: Array) -> torch.Tensor:
        if self._network.memory is None:
            return self._network.features(parts["observations"])
        assert self._states is not None
        steps, num_envs = parts["observations"].shape[:2]
        features = self._network.features(parts["observations"].flatten(0, 1)).view(steps, num_envs, -1)
        return self._network.remember(features, self._states[torch.from_numpy(chosen)], parts["begins"])

    def _descend(self, loss: torch.Tensor, rate: float) -> None:
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._network.parameters(), self._config.max_gradient_norm)
        self._optimiser.step()

    def _here(self, array: Array) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device)

    def tensors(self) -> dict[str, torch.Tensor]:
        """What Adam knows."""
        state: dict[int, dict[str, torch.Tensor]] = self._optimiser.state_dict()["state"]
        return {f"{number}.{name}": value for number, moments in state.items() for name, value in moments.items()}

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Go on from there."""
        state: dict[int, dict[str, Any]] = {}
        for place, value in tensors.items():
            number, name = place.split(".")
            state.setdefault(int(number), {})[name] = value
        self._optimiser.load_state_dict({**self._optimiser.state_dict(), "state": state})

    def close(self) -> None:
        """There is nothing to end."""


def _mean(values: torch.Tensor, is_valid: torch.Tensor | None) -> torch.Tensor:
    return values.mean() if is_valid is None else (values * is_valid).sum() / is_valid.sum().clamp(min=1)


def _normalised(values: torch.Tensor, is_valid: torch.Tensor | None) -> torch.Tensor:
    if values.numel() < 2:
        return values
    mean = _mean(values, is_valid)
    deviation = _mean((values - mean) ** 2, is_valid).sqrt()
    return (values - mean) / (deviation + 1e-8)
