"""The update: which weights learn, from what, and that it finds what it should."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from shoal.meta.actions import actions_of, sampled_numbers
from shoal.meta.config import PolicySettings
from shoal.meta.network import AgentNetwork
from shoal.meta.sac import SAC, Batch

pytestmark = pytest.mark.usefixtures("one_thread")

CHOICES, NUMBERS = spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,), np.float32)


def algorithm_of(space: spaces.Space[Any], **policy: Any) -> SAC:
    settings = PolicySettings(
        **{"rnn_hidden_size": 8, "policy_layers": (16,), "dqn_layers": (16,), "lr": 3e-3, **policy}
    )
    actions = actions_of(space)
    torch.manual_seed(0)
    network = AgentNetwork(2, actions, settings)
    return SAC(network, actions, settings, seed=0)


def batch_of(space: spaces.Space[Any], steps: int = 5, count: int = 16) -> Batch:
    random, actions = torch.Generator().manual_seed(0), actions_of(space)
    played = torch.from_numpy(actions.random(np.random.default_rng(0), steps * count)).view(steps, count, -1)
    observations = torch.randn(steps + 1, count, 2, generator=random)
    rewards = torch.randn(steps, count, 1, generator=random)
    return Batch(observations, played, rewards, torch.zeros_like(rewards), torch.ones_like(rewards))


@pytest.mark.parametrize("space", [CHOICES, NUMBERS], ids=["choices", "numbers"])
@pytest.mark.parametrize("arch", ["markov", "memory", "memory-markov"])
@pytest.mark.parametrize("separate", [True, False], ids=["separate", "shared"])
def test_what_is_masked_changes_nothing(space: spaces.Space[Any], arch: str, separate: bool) -> None:
    """Behind the end of a rollout lies another one."""
    batch = batch_of(space)
    batch.mask[3:, :8] = 0
    other = Batch(*(part.clone() for part in batch))
    other.observations[4:, :8] += 5.0  # row 3 is what the last step has led to
    other.rewards[3:, :8] -= 7.0
    other.terminals[3:, :8] = 1.0
    found = []
    for one in (batch, other):
        algorithm = algorithm_of(space, arch=arch, separate=separate)
        algorithm.update(one)
        found.append(algorithm.network.state_dict())
    for name, value in found[0].items():
        torch.testing.assert_close(value, found[1][name], rtol=0, atol=1e-6, msg=name)


def test_a_shared_memory_does_not_learn_from_the_actor() -> None:
    batch = batch_of(CHOICES)
    found = []
    for alpha in (0.01, 10.0):  # which the actor alone is told, if nothing follows
        algorithm = algorithm_of(CHOICES, arch="memory", separate=False, entropy_alpha=alpha, gamma=0.0)
        algorithm.update(batch)
        found.append(algorithm.network)
    for one, other in zip(found[0].critic_memory.parameters(), found[1].critic_memory.parameters(), strict=True):
        # gradients are shortened together, if at all, so that they may be of other length: Adam's first step is not
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    one, other = (next(network.actor.parameters()) for network in found)
    assert not torch.allclose(one, other)


@pytest.mark.parametrize("space", [CHOICES, NUMBERS], ids=["choices", "numbers"])
def test_it_learns_what_actions_are_worth(space: spaces.Space[Any]) -> None:
    """One state, in which only the action counts, and which ends at once."""
    random = np.random.default_rng(0)
    algorithm = algorithm_of(space, arch="markov", lr=0.01, entropy_alpha=0.05, automatic_entropy_tuning=False)
    actions = actions_of(space)
    for _ in range(500):
        played = torch.from_numpy(actions.random(random, 64))
        rewards = played[:, 1:2] if space is CHOICES else -4.0 * (played[:, :1] - 0.5).square()
        ones = torch.ones(1, 64, 1)
        algorithm.update(Batch(torch.zeros(2, 64, 2), played[None], rewards[None], ones, ones))
    outputs = algorithm.network.actor(torch.zeros(1, 2))
    if space is CHOICES:
        assert torch.softmax(outputs, -1)[0, 1] > 0.95
    else:
        assert torch.tanh(outputs[0, 0]).item() == pytest.approx(0.5, abs=0.15)


def test_values_are_discounted_until_the_end() -> None:
    """Three steps, each with a reward of one, then nothing; no entropy to speak of."""
    algorithm = algorithm_of(
        CHOICES, arch="memory", gamma=0.5, entropy_alpha=1e-6, automatic_entropy_tuning=False, tau=0.1
    )
    batch = batch_of(CHOICES, steps=3)
    terminals = torch.zeros(3, 16, 1)
    terminals[2] = 1.0
    batch = batch._replace(rewards=torch.ones(3, 16, 1), terminals=terminals)
    for _ in range(600):
        algorithm.update(batch)
    _, features, _ = algorithm._features(batch)
    values = algorithm.network.critics(features[:-1], batch.actions)[0].mean(dim=(1, 2)).tolist()
    assert values == pytest.approx([1.75, 1.5, 1.0], abs=0.1)


def test_alpha_holds_the_entropy_where_it_should_be() -> None:
    algorithm = algorithm_of(CHOICES, arch="markov", target_entropy=0.7, alpha_lr=0.01, entropy_alpha=2.0, lr=0.01)
    batch = batch_of(CHOICES, steps=1, count=64)
    batch = batch._replace(terminals=torch.ones_like(batch.terminals), rewards=2.0 * batch.actions[..., :1])
    entropies = [algorithm.update(batch)[2].item() for _ in range(500)]
    assert np.mean(entropies[-100:]) == pytest.approx(0.7, abs=0.02)


def test_densities_are_those_of_squashed_normal_numbers() -> None:
    torch.manual_seed(0)
    outputs, noise = 0.5 * torch.randn(50, 4), torch.randn(50, 2)
    actions, log_density = sampled_numbers(outputs, noise)
    means, logs = outputs.chunk(2, dim=-1)
    raw = means + logs.exp() * noise
    normal = -0.5 * ((raw - means) / logs.exp()).square() - torch.log(logs.exp() * math.sqrt(2 * math.pi))
    expected = (normal.double() - torch.log(1 - torch.tanh(raw.double()).square())).sum(-1)
    torch.testing.assert_close(log_density[:, 0].double(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(actions, torch.tanh(raw))
