"""Soft actor-critic, on sequences.

One update, with alpha as the weight of the entropy::

    target      y = r + gamma * (1 - terminal) * E[ min(Q1', Q2') - alpha * log pi ]  at the next observation
    critics     (Q1 - y)^2 + (Q2 - y)^2
    actor       E[ alpha * log pi - min(Q1, Q2) ]
    alpha       log(alpha) * (entropy - target entropy)

Transitions are sequences of one step, so there is one update for all architectures. Observations are (time + 1, batch, ...),
all others (time, batch, ...); what lies behind the end of a rollout is masked.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from shoal.meta.actions import Choices, Numbers, sampled_numbers
from shoal.meta.config import PolicySettings
from shoal.meta.network import AgentNetwork

ENTROPY_RATIO = 0.1
"""Of the most that is possible for choices, unless something else is configured."""
SAID = ("critic_loss", "actor_loss", "entropy", "alpha", "value")


class Batch(NamedTuple):
    """What an update learns from."""

    observations: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    terminals: torch.Tensor
    mask: torch.Tensor


class SAC:
    """Changes the weights of a network."""

    def __init__(self, network: AgentNetwork, actions: Choices | Numbers, settings: PolicySettings, seed: int) -> None:
        self.network, self._actions, self._settings = network, actions, settings
        self._has_choices = isinstance(actions, Choices)
        self.random = torch.Generator().manual_seed(seed)
        self.log_alpha = nn.Parameter(torch.tensor(float(settings.entropy_alpha)).log())
        self.optimiser = torch.optim.Adam(network.learned, lr=settings.lr, fused=True)
        self.alpha_optimiser = torch.optim.Adam([self.log_alpha], lr=settings.alpha_lr)
        if settings.target_entropy is not None:
            self.target_entropy = settings.target_entropy
        else:
            self.target_entropy = actions.target_entropy * (ENTROPY_RATIO if self._has_choices else 1.0)

    def update(self, batch: Batch) -> torch.Tensor:
        """One step. Returns what it says of itself, see :data:`SAID`."""
        network, settings = self.network, self._settings
        actor_features, critic_features, target_features = self._features(batch)
        alpha = self.log_alpha.detach().exp()
        outputs = network.actor(actor_features)
        num_valid = batch.mask.sum().clamp(min=1)

        def mean(values: torch.Tensor) -> torch.Tensor:
            return (values * batch.mask).sum() / num_valid

        with torch.no_grad():
            value = self._value(outputs[1:], target_features[1:], alpha)
            target = batch.rewards + settings.gamma * (1.0 - batch.terminals) * value
        seen = critic_features[:-1]
        if self._has_choices:  # judgements of all choices serve the actor as well
            each = network.critics(seen, None)
            first, second = ((one * batch.actions).sum(-1, keepdim=True) for one in each)
            logs = torch.log_softmax(outputs[:-1], dim=-1)
            chances = logs.exp()
            entropy = -(chances * logs).sum(-1, keepdim=True)
            believed = torch.minimum(*(one.detach() for one in each))
            wanted = (chances * believed).sum(-1, keepdim=True)
        else:
            first, second = network.critics(seen, batch.actions)
            actions, log_density = sampled_numbers(outputs[:-1], self._noise(batch.actions))
            entropy = -log_density
            wanted = torch.minimum(*self._judged_without_learning(seen.detach(), actions))
        critic_loss = mean((first - target).square()) + mean((second - target).square())
        actor_loss = -mean(wanted + alpha * entropy)
        self._descend(critic_loss + actor_loss)
        mean_entropy = mean(entropy.detach())
        if settings.automatic_entropy_tuning:
            self.alpha_optimiser.zero_grad()
            (self.log_alpha * (mean_entropy - self.target_entropy)).backward()  # type: ignore[no-untyped-call]
            self.alpha_optimiser.step()
        with torch.no_grad():
            torch._foreach_lerp_(network.targets, network.followed, settings.tau)
            return torch.stack([critic_loss, actor_loss, mean_entropy, alpha, mean(value)])

    def _features(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What actor, critics and targets see at every step, and at the one after the last."""
        network = self.network
        none = torch.zeros_like(batch.actions[:1]), torch.zeros_like(batch.rewards[:1])
        history = torch.cat([none[0], batch.actions]), torch.cat([none[1], batch.rewards])
        of_critics = network.critic_memory(batch.observations, *history)
        # A memory for both learns from the critics: gradients of the actor would make it forget what they need.
        of_actor = of_critics.detach() if network.is_shared else network.actor_memory(batch.observations, *history)
        with torch.no_grad():
            of_targets = network.target_memory(batch.observations, *history)
        return of_actor, of_critics, of_targets

    def _value(self, outputs: torch.Tensor, features: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
        """Of being somewhere, with the entropy that is to come."""
        if self._has_choices:
            logs = torch.log_softmax(outputs, dim=-1)
            judged = torch.minimum(*self.network.target_critics(features, None))
            return (logs.exp() * (judged - alpha * logs)).sum(-1, keepdim=True)
        actions, log_density = sampled_numbers(outputs, self._noise(outputs.chunk(2, dim=-1)[0]))
        return torch.minimum(*self.network.target_critics(features, actions)) - alpha * log_density

    def _judged_without_learning(
        self, features: torch.Tensor, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """By critics through which gradients flow to the actions, and which do not learn from them."""
        parameters = {name: value.detach() for name, value in self.network.critics.named_parameters()}
        judged: tuple[torch.Tensor, torch.Tensor] = torch.func.functional_call(
            self.network.critics, parameters, (features, actions)
        )
        return judged

    def _noise(self, like: torch.Tensor) -> torch.Tensor:
        return torch.randn(like.shape, generator=self.random)

    def _descend(self, loss: torch.Tensor) -> None:
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.learned, self._settings.max_gradient_norm)
        self.optimiser.step()
