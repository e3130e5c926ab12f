"""The policy may act for one half of the environments while the other half steps: nothing changes but the time it takes."""

from __future__ import annotations

from typing import Any

import pytest

import shoal
from shoal.ppo import PPOTrainer
from shoal.ppo.halves import Trial
from tests.ppo.test_trainer import ENVS, curve


@pytest.mark.parametrize(
    "settings",
    [
        {"env": "CartPole-v1", "n_envs": 7, "num_episodes": 40},
        {"env": f"{ENVS}:Masked", "n_envs": 4, "total_steps": 300, "normalise_observations": True},
        {"env": f"{ENVS}:Aim", "n_envs": 5, "total_steps": 300},
        {"env": "CartPole-v1", "n_envs": 1, "total_steps": 100},
        {"env": "shoal/CartPole-v0", "n_envs": 6, "total_steps": 300},
    ],
    ids=lambda settings: f"{settings['env']}-{settings['n_envs']}",
)
def test_halves_learn_the_same(settings: dict[str, Any]) -> None:
    basic: dict[str, Any] = {"seed": 5, "rollout_steps": 16, **settings}
    expected = curve(backend="serial", overlap=False, **basic)
    assert curve(backend="serial", overlap=True, **basic) == expected
    assert curve(backend="shm", num_workers=2, overlap=True, **basic) == expected


def test_a_memory_in_halves_is_the_same_on_every_backend() -> None:
    settings: dict[str, Any] = {
        "env": f"{ENVS}:Recall", "n_envs": 6, "total_steps": 200, "rollout_steps": 8, "recurrent_size": 8, "overlap": True,
    }  # fmt: skip
    assert curve(backend="serial", **settings) == curve(backend="pipes", num_workers=2, **settings)


def test_it_is_decided_once_by_what_is_quicker() -> None:
    with shoal.make("CartPole-v1", 2, backend="threads") as envs:
        for seconds, expected in (([9.0, 1.0, 0.5, 1.0, 0.5], True), ([9.0, 1.0, 0.99, 1.0, 1.2], False)):
            trial, tried, decided = Trial(), [], None
            for took in seconds:
                assert decided is None
                tried.append(trial.is_overlapping)
                decided = trial.take(envs, took, 0.3)
            assert tried == [False, False, True, False, True]
            assert decided is expected


def test_a_policy_that_takes_no_time_is_not_worth_a_trial() -> None:
    with shoal.make("CartPole-v1", 2, backend="threads") as envs:
        trial = Trial()
        assert trial.take(envs, 9.0, 0.5) is None  # the first one says nothing
        assert trial.take(envs, 1.0, 0.02) is False


def test_nothing_is_tried_in_a_single_process_or_before_it_is_known_where_environments_run() -> None:
    with shoal.make("CartPole-v1", 2, backend="auto") as envs:
        trial = Trial()
        for _ in range(10):
            assert trial.take(envs, 1.0, 0.3) is None
            assert not trial.is_overlapping
        envs.reset(seed=0)
        while trial.take(envs, 1.0, 0.3) is None:
            envs.step([0, 1])
        assert trial.take(envs, 1.0, 0.3) is False


@pytest.mark.parametrize(
    ("env", "settings", "expected"),
    [
        ("CartPole-v1", {"n_envs": 1}, False),
        (f"{ENVS}:Spot", {}, True),
        (f"{ENVS}:Recall", {"recurrent_size": 4}, False),
    ],
)
def test_where_results_would_depend_on_it_nothing_is_measured(
    env: str, settings: dict[str, Any], expected: bool
) -> None:
    with PPOTrainer(**{"env": env, "n_envs": 2, "total_steps": 2, "backend": "serial", **settings}) as trainer:
        assert trainer.config.overlap is expected
