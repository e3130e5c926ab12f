"""Gradients by hand are those that torch finds."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.ppo.acting import CompiledPolicy, TorchPolicy
from shoal.ppo.compiled_learner import CHUNK, CompiledLearner
from shoal.ppo.config import PPOConfig
from shoal.ppo.halves import ALL
from shoal.ppo.heads import head_of
from shoal.ppo.kernels import activate, exponentials
from shoal.ppo.learning import Samples
from shoal.ppo.network import Network
from shoal.ppo.torch_learner import TorchLearner
from shoal.vector.layout import Array

CPU = torch.device("cpu")
SPACES: dict[str, spaces.Space[Any]] = {
    "one choice": spaces.Discrete(5),
    "several choices": spaces.MultiDiscrete([3, 4, 2]),
    "switches": spaces.MultiBinary(4),
    "numbers": spaces.Box(-1, 1, (3,)),
}


def network_of(space: spaces.Space[Any], config: PPOConfig, seed: int) -> Network:
    torch.manual_seed(seed)
    network = Network((6,), False, head_of(space), config)
    for parameter in network.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return network


def samples_of(network: Network, space: spaces.Space[Any], random: np.random.Generator, steps: int) -> Samples:
    """As an update has them, with a policy that is no longer the one that acted."""
    head = head_of(space)
    seen = random.normal(size=(steps, 8, 6)).astype(np.float32)
    masks = None
    if not isinstance(space, spaces.Box) and random.random() < 0.5:
        masks = head.with_a_way_out(random.random((steps * 8, head.num_outputs)) < 0.6)
    policy = CompiledPolicy(network)
    outputs = policy.outputs(seen.reshape(steps * 8, 6), ALL)
    actions = head.draw(outputs, policy.deviation, head.noise(random, steps * 8), masks).reshape(steps, 8, -1)
    return Samples(
        observations=seen,
        actions=actions,
        masks=None if masks is None else masks.reshape(steps, 8, -1),
        log_probabilities=random.normal(-1.5, 0.5, size=(steps, 8)).astype(np.float32),
        values=random.normal(size=(steps, 8)).astype(np.float32),
        advantages=random.normal(size=(steps, 8)).astype(np.float32),
        returns=random.normal(size=(steps, 8)).astype(np.float32),
        is_valid=random.random((steps, 8)) < 0.9,
        begins=np.zeros((steps, 8), np.bool_),
        first_states=None,
    )


def weights_of(network: Network) -> Array:
    return torch.nn.utils.parameters_to_vector(network.parameters()).detach().numpy().copy()


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    activation=st.sampled_from(["tanh", "relu"]),
    hidden_sizes=st.sampled_from([(), (16,), (64, 64), (7, 9, 5)]),
    steps=st.sampled_from([20, CHUNK // 8 + 30]),
    value_clip=st.sampled_from([None, 0.3]),
    entropy_coefficient=st.sampled_from([0.0, 0.05]),
    normalise_advantages=st.booleans(),
)
def test_a_step_by_hand_is_one_of_torchs(space: spaces.Space[Any], seed: int, steps: int, **chosen: Any) -> None:
    config = PPOConfig(total_steps=1, torch_threads=1, **chosen)
    network = network_of(space, config, seed)
    twin = copy.deepcopy(network)
    by_hand = CompiledLearner(network, head_of(space), config)
    by_torch = TorchLearner(twin, head_of(space), config, CPU)
    samples = samples_of(network, space, np.random.default_rng(seed), steps)
    candidates = by_hand.take(samples)
    assert candidates.tolist() == by_torch.take(samples).tolist() == np.flatnonzero(samples.is_valid).tolist()
    before = weights_of(network)
    # A plain step shows the gradient itself; Adam would make much of what is nearly nothing.
    said, expected = by_hand.improve(candidates, 1.0), by_torch.improve(candidates, 1.0)
    np.testing.assert_allclose(said, expected, atol=2e-5, rtol=1e-4)
    assert not np.array_equal(weights_of(network), before)
    moments, its = by_hand.tensors(), by_torch.tensors()
    assert moments.keys() == its.keys()
    for name, value in moments.items():
        np.testing.assert_allclose(value.numpy(), its[name].numpy(), atol=2e-6, rtol=2e-3, err_msg=name)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
def test_many_small_steps_lead_to_the_same_place(space: spaces.Space[Any]) -> None:
    config = PPOConfig(total_steps=1, torch_threads=1, entropy_coefficient=0.01)
    network = network_of(space, config, 0)
    twin = copy.deepcopy(network)
    by_hand, by_torch = (
        CompiledLearner(network, head_of(space), config),
        TorchLearner(twin, head_of(space), config, CPU),
    )
    samples = samples_of(network, space, np.random.default_rng(1), 30)
    candidates = by_hand.take(samples)
    by_torch.take(samples)
    for _ in range(10):
        by_hand.improve(candidates, 1e-4)
        by_torch.improve(candidates, 1e-4)
    np.testing.assert_allclose(weights_of(network), weights_of(twin), atol=1e-5)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
def test_both_judge_alike(space: spaces.Space[Any]) -> None:
    config = PPOConfig(total_steps=1, torch_threads=2)
    network = network_of(space, config, 3)
    twin = copy.deepcopy(network)
    samples = samples_of(network, space, np.random.default_rng(2), CHUNK // 8 + 3)
    learner = CompiledLearner(network, head_of(space), config)
    seen = np.concatenate([samples.observations, samples.observations[:1]])
    begins = np.zeros(seen.shape[:2], np.bool_)
    values, logs = learner.judge(seen, begins, None, samples.actions, samples.masks)
    learner.close()
    its_values, its_logs = TorchLearner(twin, head_of(space), config, CPU).judge(
        seen, begins, None, samples.actions, samples.masks
    )
    np.testing.assert_allclose(values, its_values, atol=2e-6)
    np.testing.assert_allclose(logs, its_logs, atol=1e-5)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_row_does_not_depend_on_the_others(activation: str) -> None:
    """So it does not matter whether environments act together or in halves."""
    config = PPOConfig(total_steps=1, activation=activation)  # type: ignore[arg-type]
    network = network_of(spaces.Discrete(5), config, 0)
    seen = np.random.default_rng(0).normal(size=(37, 6)).astype(np.float32)
    policy = CompiledPolicy(network)
    together = policy.outputs(seen, ALL)
    np.testing.assert_array_equal(together[1::2], policy.outputs(seen[1::2], ALL))
    np.testing.assert_array_equal(together[5:6], policy.outputs(seen[5:6], ALL))
    np.testing.assert_allclose(together, TorchPolicy(network, CPU).outputs(seen, ALL), atol=2e-6)


def test_the_result_does_not_depend_on_the_number_of_threads() -> None:
    space, results = spaces.Discrete(5), []
    for num_threads in (1, 2, 3):
        config = PPOConfig(total_steps=1, torch_threads=num_threads)
        network = network_of(space, config, 0)
        learner = CompiledLearner(network, head_of(space), config)
        candidates = learner.take(samples_of(network, space, np.random.default_rng(0), CHUNK // 2))
        assert len(candidates) > 3 * CHUNK
        said = [learner.improve(candidates, 1e-3) for _ in range(3)]
        results.append((weights_of(network).tobytes(), np.array(said).tobytes()))
        learner.close()
    assert results[0] == results[1] == results[2]


def test_functions_are_what_they_should_be() -> None:
    values = np.linspace(-12, 12, 100_001, dtype=np.float32)
    units = values.copy().reshape(-1, 1)
    activate(units, np.zeros(1, np.float32), True)
    np.testing.assert_allclose(units[:, 0], np.tanh(values.astype(np.float64)), atol=4e-7)
    assert np.abs(units).max() <= 1.0


def test_exponentials_are_what_they_should_be() -> None:
    from shoal.envs.compiling import kernel

    values = np.linspace(-100, 0, 100_001, dtype=np.float32)
    room, bits = values.copy(), np.empty(len(values), np.int32)

    def run(values: Array, bits: Array, powers: Array) -> Any:
        return exponentials(values, bits, powers)

    total = kernel(run, "a test")(room, bits, bits.view(np.float32))
    expected = np.exp(values.astype(np.float64))
    np.testing.assert_allclose(room[values >= -87], expected[values >= -87], rtol=3e-7)
    assert (room[values < -87] == 0).all()
    assert total == pytest.approx(expected.sum(), rel=1e-5)
