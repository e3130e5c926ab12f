"""Acting: what the network says, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from shoal.meta.actions import actions_of
from shoal.meta.agent import Agent
from shoal.meta.config import PolicySettings
from shoal.meta.network import AgentNetwork
from shoal.vector.errors import ConfigurationError

pytestmark = pytest.mark.usefixtures("one_thread")

SPACES = {"choices": spaces.Discrete(5), "numbers": spaces.Box(-1.0, 1.0, (3,), np.float32)}
MEMORIES: list[dict[str, Any]] = [
    {"arch": "markov"},
    {"arch": "memory-markov"},
    {"arch": "memory", "seq_model": "gru"},
    {"arch": "memory", "seq_model": "lstm"},
    {"arch": "memory", "separate": True, "action_embedding_size": 0, "reward_embedding_size": 0},
]


def agent_and_network(policy: dict[str, Any], space: spaces.Space[Any]) -> tuple[Agent, AgentNetwork]:
    settings = PolicySettings(**policy, rnn_hidden_size=21, policy_layers=(17, 9))
    actions = actions_of(space)
    torch.manual_seed(0)
    network = AgentNetwork(4, actions, settings)
    return Agent(network, actions), network


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("policy", MEMORIES, ids=str)
def test_it_does_what_the_network_says(policy: dict[str, Any], space: spaces.Space[Any]) -> None:
    agent, network = agent_and_network(policy, space)
    random = np.random.default_rng(0)
    observations = random.normal(size=(12, 6, 4)).astype(np.float32)
    rewards = random.normal(size=(12, 6, 1)).astype(np.float32)
    action, _, state = agent.get_initial_info(6)
    reward = np.zeros((6, 1), np.float32)
    played = []
    for step in range(12):
        action, state = agent.act(observations[step], state, action, reward, deterministic=True)
        reward = rewards[step]
        played.append(action)
    before = [np.concatenate([np.zeros_like(one[:1]), one[:-1]]) for one in (np.stack(played), rewards)]
    with torch.no_grad():
        features = network.actor_memory(*map(torch.from_numpy, (observations, *before)))
        outputs = network.actor(features)
        expected = torch.tanh(outputs[..., :3]) if outputs.shape[-1] == 6 else torch.eye(5)[outputs.argmax(-1)]
    np.testing.assert_allclose(np.stack(played), expected.numpy(), atol=2e-5)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("policy", MEMORIES, ids=str)
def test_no_row_depends_on_another(policy: dict[str, Any], space: spaces.Space[Any]) -> None:
    agent, _ = agent_and_network(policy, space)
    random = np.random.default_rng(1)
    count = 33
    inputs = [random.normal(size=(count, size)).astype(np.float32) for size in (4, agent.state_size)]
    history = [random.normal(size=(count, size)).astype(np.float32) for size in (agent.actions.width, 1)]
    noise = agent.actions.noise(random, count)
    whole = agent.act(inputs[0], inputs[1], history[0], history[1], noise=noise)
    for rows in ([0], [32], [7, 3], list(range(1, 20)), random.permutation(count).tolist()):
        given = [part[rows] for part in (*inputs, *history)]
        some = agent.act(given[0], given[1], given[2], given[3], noise=noise[rows])
        assert some.action.tobytes() == whole.action[rows].tobytes()
        assert some.internal_state.tobytes() == whole.internal_state[rows].tobytes()


def test_choices_are_made_as_often_as_they_are_likely() -> None:
    actions = actions_of(SPACES["choices"])
    chances = np.array([0.5, 0.2, 0.1, 0.15, 0.05], np.float32)
    outputs = np.tile(np.log(chances) + 3.0, (20_000, 1)).astype(np.float32)
    drawn = actions.draw(outputs, actions.noise(np.random.default_rng(0), 20_000))
    assert (drawn.sum(axis=1) == 1).all()
    np.testing.assert_allclose(drawn.mean(axis=0), chances, atol=0.015)


def test_numbers_are_spread_as_the_network_says() -> None:
    actions = actions_of(spaces.Box(-1.0, 1.0, (1,), np.float32))
    outputs = np.tile(np.array([0.3, np.log(0.2)], np.float32), (20_000, 1))
    drawn = np.arctanh(actions.draw(outputs, actions.noise(np.random.default_rng(0), 20_000)))
    assert drawn.mean() == pytest.approx(0.3, abs=0.01)
    assert drawn.std() == pytest.approx(0.2, abs=0.01)


def test_a_discrete_space_may_begin_anywhere() -> None:
    actions = actions_of(spaces.Discrete(3, start=7))
    assert actions.for_envs(np.eye(3, dtype=np.float32)).tolist() == [7, 8, 9]


def test_a_space_without_an_agent_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="for which there is no agent: use Discrete, or a Box"):
        actions_of(spaces.MultiBinary(3))


def test_without_noise_of_ones_own_it_has_its_own() -> None:
    agent, _ = agent_and_network({"arch": "memory"}, SPACES["numbers"])
    observations = np.zeros((2, 4), np.float32)
    first, second = agent.act(observations), agent.act(observations)
    assert first.action.shape == (2, 3)
    assert not np.array_equal(first.action, second.action)
    assert not np.array_equal(first.action[0], first.action[1])
