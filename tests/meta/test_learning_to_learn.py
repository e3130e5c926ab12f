"""Agents learn to learn, with the settings that Shoal has for two worlds: minutes each, so `make soak` alone runs them."""

from __future__ import annotations

import pytest

from shoal.meta import Learner
from shoal.meta.presets import PRESETS, preset_of
from shoal.vector.errors import ConfigurationError


def episode_returns(env_name: str, arch: str) -> list[float]:
    with Learner(preset_of(env_name, arch), seed=1) as learner:
        learner.train()
        return learner.evaluate().episode_returns


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_who_remembers_searches_once_and_then_goes_straight_to_the_goal() -> None:
    assert (
        sum(episode_returns("GridNavi-v0", "memory")[1:]) / 3 >= 10.0
    )  # of 11.1 that are possible with the goal known
    assert sum(episode_returns("GridNavi-v0", "markov")[1:]) / 3 < 10.0


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_who_remembers_finds_what_is_rewarded_nowhere_else() -> None:
    memory, markov = (episode_returns("PointRobotSparse-v0", arch)[-1] for arch in ("memory", "markov"))
    assert memory >= 2 * markov
    assert memory > 20


@pytest.mark.parametrize("env_name", [*PRESETS, "shoal/GridNavi-v0"])
@pytest.mark.parametrize("arch", ["memory", "markov"])
def test_settings_for_a_world_are_settings(env_name: str, arch: str) -> None:
    settings = {
        "train": {"num_iters": 1, "num_init_rollouts_pool": 1, "num_rollouts_per_iter": 1, "num_updates_per_iter": 1}
    }
    with Learner(preset_of(env_name, arch), **settings) as learner:
        assert learner.train().updates == 1


def test_a_world_without_settings_is_said() -> None:
    with pytest.raises(ConfigurationError, match="no preset for 'GridNav'.*'GridNavi-v0'"):
        preset_of("GridNav")
