"""A run that was interrupted goes on bit by bit as one that was not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from shoal.ppo import PPOTrainer
from shoal.ppo.saving import load, state_of, tensors_of

BASIC: dict[str, Any] = {"n_envs": 6, "total_steps": 3000, "rollout_steps": 25, "seed": 2, "torch_threads": 1}
CASES: list[dict[str, Any]] = [
    {"env": "CartPole-v1", "backend": "shm", "num_workers": 2},
    {
        "env": "CartPole-v1",
        "backend": "pipes",
        "num_workers": 2,
        "normalise_observations": True,
        "normalise_rewards": True,
    },
    {"env": "shoal/CartPole-v0", "backend": "serial", "learning_rate_schedule": "linear"},
    {"env": "shoal/Cage2-v0", "backend": "serial", "env_kwargs": {"max_steps": 30}},
    {"env": "tests.ppo.envs:Recall", "backend": "shm", "num_workers": 2, "recurrent_size": 8},
    {"env": "tests.ppo.envs:Masked", "backend": "shm", "num_workers": 2},
    {"env": "CartPole-v1", "backend": "serial"},
    {"env": "tests.ppo.envs:Aim", "backend": "threads", "num_workers": 2},
    {"env": "CartPole-v1", "backend": "auto"},
    {"env": "tests.ppo.envs:Spot", "backend": "serial", "n_envs": 2},
]


def rest(trainer: PPOTrainer, updates: int) -> list[tuple[Any, ...]]:
    found = []
    for _ in range(updates):
        report = trainer.train_episode_vectorized()
        found.append((report.steps, report.episodes, report.mean_return, report.learning_rate, *report.losses.values()))
    weights = [value.clone() for value in trainer.network.state_dict().values()]
    return [*found, tuple(value.double().sum().item() for value in weights)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['env']}-{case['backend']}")
def test_it_goes_on_bit_by_bit(case: dict[str, Any]) -> None:
    with PPOTrainer(**{**BASIC, **case}) as trainer:
        rest(trainer, 3)
        tensors, state = {name: value.clone() for name, value in tensors_of(trainer).items()}, state_of(trainer)
        expected = rest(trainer, 3)
    with PPOTrainer(**{**BASIC, **case}) as trainer:
        assert load(trainer, tensors, state) is None
        assert rest(trainer, 3) == expected


def test_where_environments_cannot_be_saved_that_is_said() -> None:
    settings = {**BASIC, "env": "tests.ppo.envs:Stubborn", "backend": "serial"}
    with PPOTrainer(**settings) as trainer:
        rest(trainer, 2)
        tensors, state = tensors_of(trainer), state_of(trainer)
    with PPOTrainer(**settings) as trainer:
        sentence = load(trainer, tensors, state)
        assert sentence is not None
        assert sentence.startswith("environments begin new episodes: state_dict() pickles environments")
        assert trainer.updates == 2
        again = trainer.collector.observations.copy()
        trainer.collector.begin(BASIC["seed"])
        assert (again != trainer.collector.observations).any()  # not those with which the run began
        rest(trainer, 1)


@pytest.mark.parametrize("compiles_first", [True, False])
def test_the_one_way_to_learn_goes_on_where_the_other_was(
    compiles_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not bit by bit, but nearly."""
    settings = {**BASIC, "env": "CartPole-v1", "backend": "serial"}
    monkeypatch.setenv("SHOAL_COMPILE", "1" if compiles_first else "0")
    with PPOTrainer(**settings) as trainer:
        rest(trainer, 2)
        tensors, state = {name: value.clone() for name, value in tensors_of(trainer).items()}, state_of(trainer)
        expected = rest(trainer, 1)[-1]
    monkeypatch.setenv("SHOAL_COMPILE", "0" if compiles_first else "1")
    with PPOTrainer(**settings) as trainer:
        load(trainer, tensors, state)
        assert rest(trainer, 1)[-1] == pytest.approx(expected, abs=1e-2)


def test_a_checkpoint_of_another_network_is_refused() -> None:
    from shoal import ConfigurationError

    with PPOTrainer(**BASIC, env="CartPole-v1", backend="serial") as trainer:
        rest(trainer, 1)
        tensors, state = tensors_of(trainer), state_of(trainer)
    with (
        PPOTrainer(**BASIC, env="CartPole-v1", backend="serial", hidden_sizes=(8,)) as trainer,
        pytest.raises(ConfigurationError, match="of another network than the config describes"),
    ):
        load(trainer, tensors, state)
    with (
        PPOTrainer(**BASIC, env="CartPole-v1", backend="serial") as trainer,
        pytest.raises(ConfigurationError, match="of version 99"),
    ):
        load(trainer, tensors, {**state, "version": 99})


def test_everything_that_is_saved_is_plain() -> None:
    with PPOTrainer(**BASIC, env="CartPole-v1", backend="shm", num_workers=2) as trainer:
        rest(trainer, 1)
        assert all(isinstance(value, torch.Tensor) for value in tensors_of(trainer).values())
