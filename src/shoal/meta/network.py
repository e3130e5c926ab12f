"""The networks: a memory, or none, and on top of it an actor or two critics.

::

    previous action ─▶ embedding ─┐
    previous reward ─▶ embedding ─┼─▶ GRU or LSTM ─┬─▶ layers ─▶ actor's or critic's outputs
    observation ─────▶ embedding ─┴────────────────┘

Tensors of sequences are (time, batch, numbers). ``Nothing`` stands where there is no memory: its features are the observations.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from shoal.meta.actions import Choices, Numbers
from shoal.meta.config import PolicySettings


class Nothing(nn.Module):
    """No memory."""

    def __init__(self, observation_size: int) -> None:
        super().__init__()
        self.size = observation_size

    def forward(
        self, observations: torch.Tensor, previous_actions: torch.Tensor, previous_rewards: torch.Tensor
    ) -> torch.Tensor:
        """The observations."""
        return observations


class Memory(nn.Module):
    """What has happened so far, and what is seen now, as features."""

    def __init__(self, observation_size: int, action_size: int, settings: PolicySettings) -> None:
        super().__init__()
        sizes = settings.observ_embedding_size, settings.action_embedding_size, settings.reward_embedding_size
        self.of_observation = nn.Linear(observation_size, sizes[0])
        self.of_action = nn.Linear(action_size, sizes[1]) if sizes[1] else None
        self.of_reward = nn.Linear(1, sizes[2]) if sizes[2] else None
        kind = nn.GRU if settings.seq_model == "gru" else nn.LSTM
        self.recurrent = kind(sum(sizes), settings.rnn_hidden_size)
        for name, parameter in self.recurrent.named_parameters():
            nn.init.zeros_(parameter) if "bias" in name else nn.init.orthogonal_(parameter)
        self.size = settings.rnn_hidden_size + sizes[0]

    @property
    def state_size(self) -> int:
        """Numbers that are remembered."""
        return self.recurrent.hidden_size * (2 if isinstance(self.recurrent, nn.LSTM) else 1)

    def forward(
        self, observations: torch.Tensor, previous_actions: torch.Tensor, previous_rewards: torch.Tensor
    ) -> torch.Tensor:
        """Features of every step of sequences from their beginning."""
        seen = torch.relu(self.of_observation(observations))
        inputs = [seen]
        if self.of_action is not None:
            inputs.append(torch.relu(self.of_action(previous_actions)))
        if self.of_reward is not None:
            inputs.append(torch.relu(self.of_reward(previous_rewards)))
        remembered, _ = self.recurrent(torch.cat(inputs, dim=-1))
        return torch.cat([remembered, seen], dim=-1)


class Critics(nn.Module):
    """Two judgements, of which the lower is believed. Actions are inputs (numbers), or have an output each (choices)."""

    def __init__(self, size: int, action_size: int, hidden_sizes: Sequence[int], *, has_choices: bool) -> None:
        super().__init__()
        self.has_choices = has_choices
        sizes = (size, action_size) if has_choices else (size + action_size, 1)
        self.first, self.second = (perceptron(sizes[0], hidden_sizes, sizes[1]) for _ in range(2))

    def forward(self, features: torch.Tensor, actions: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Of these actions; of all choices if there are no actions."""
        if not self.has_choices:
            assert actions is not None
            together = torch.cat([features, actions], dim=-1)
            return self.first(together), self.second(together)
        first, second = self.first(features), self.second(features)
        if actions is None:
            return first, second
        return (first * actions).sum(-1, keepdim=True), (second * actions).sum(-1, keepdim=True)


def perceptron(size: int, hidden_sizes: Sequence[int], num_outputs: int) -> nn.Sequential:
    """Layers."""
    layers: list[nn.Module] = []
    for width in hidden_sizes:
        layers += [nn.Linear(size, width), nn.ReLU()]
        size = width
    return nn.Sequential(*layers, nn.Linear(size, num_outputs))


class AgentNetwork(nn.Module):
    """Actor and critics, and the slow copies of the critics that give targets."""

    def __init__(self, observation_size: int, actions: Choices | Numbers, settings: PolicySettings) -> None:
        super().__init__()
        arch = settings.agent_arch

        def memory(remembers: bool) -> Memory | Nothing:
            return Memory(observation_size, actions.width, settings) if remembers else Nothing(observation_size)

        def critics() -> Critics:
            has_choices = isinstance(actions, Choices)
            return Critics(self.critic_memory.size, actions.width, settings.dqn_layers, has_choices=has_choices)

        self.critic_memory = memory(arch.stores_sequences)
        self.is_shared = arch.actor_remembers and not settings.separate
        self.actor_memory = self.critic_memory if self.is_shared else memory(arch.actor_remembers)
        self.actor = perceptron(self.actor_memory.size, settings.policy_layers, actions.num_outputs)
        self.critics = critics()
        self.target_memory, self.target_critics = memory(arch.stores_sequences), critics()
        self.target_memory.load_state_dict(self.critic_memory.state_dict())
        self.target_critics.load_state_dict(self.critics.state_dict())
        for parameter in self.targets:
            parameter.requires_grad_(False)

    @property
    def learned(self) -> list[nn.Parameter]:
        """What gradients change."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    @property
    def targets(self) -> list[torch.Tensor]:
        """What follows slowly."""
        return [*self.target_memory.parameters(), *self.target_critics.parameters()]

    @property
    def followed(self) -> list[torch.Tensor]:
        """What the targets follow."""
        return [*self.critic_memory.parameters(), *self.critics.parameters()]
