"""``check_restorable`` tells environments that can be brought back from those that cannot, and why."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import pytest
from gymnasium.utils import EzPickle
from gymnasium.wrappers import NormalizeObservation

import shoal
from shoal.testing import check_restorable
from tests.envs import CountingEnv, WalkingEnv


def test_an_ordinary_environment_can_be_restored_in_every_way() -> None:
    found = check_restorable("CartPole-v1")
    assert (found.ok, found.replay, found.resets, found.captures) == (True, "", "", "")
    assert found.is_bounded
    assert str(found) == (
        "CartPole-v1 can be restored: 200 steps with two kills gave what an undisturbed run gives.\n"
        "  from its last reset: yes\n"
        "  from a captured state: yes"
    )


class ClockEnv(CountingEnv):
    """Says what time it is."""

    def step(self, action: Any) -> Any:
        _, *rest = super().step(action)
        return np.array([time.perf_counter() % 1000, 0], np.float32), *rest


def test_one_that_is_random_is_named_with_its_step() -> None:
    found = check_restorable(ClockEnv)
    assert not found
    assert "environment 0 in episode 0 at step 1 (command 2 of the replay) gave another result" in found.replay
    assert str(found).startswith("ClockEnv cannot be restored: environment 0 in episode 0 at step 1")
    assert "replayable=False" in str(found)


def normalised() -> Any:
    return NormalizeObservation(WalkingEnv())


def test_one_that_remembers_its_episodes_can_only_be_captured() -> None:
    found = check_restorable(normalised)
    assert found.ok
    assert re.match(r"environment \d in episode", found.resets)
    assert not found.captures
    assert found.is_bounded


class HoardingEnv(WalkingEnv, EzPickle):
    """Counts its episodes, and pickles only what it was made with."""

    def __init__(self) -> None:
        WalkingEnv.__init__(self)
        EzPickle.__init__(self)
        self.episodes = 0

    def reset(self, **keywords: Any) -> Any:
        self.episodes += 1
        return super().reset(**keywords)

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, reward + self.episodes, *rest


def test_one_that_can_be_neither_is_told_what_to_do() -> None:
    found = check_restorable(HoardingEnv)
    assert found.ok
    assert not found.is_bounded
    assert found.captures == "TypeError: HoardingEnv pickles only what it was made with, and has no get_state()"
    assert "give it get_state() and set_state()" in str(found)


class StatefulEnv(HoardingEnv):
    """The same, with a way to ask for its state."""

    def get_state(self) -> Any:
        return self.position, self.start, self.steps, self.is_over, self.episodes

    def set_state(self, state: Any) -> None:
        self.position, self.start, self.steps, self.is_over, self.episodes = state


def test_an_environment_that_offers_its_state_is_asked_for_it() -> None:
    found = check_restorable(StatefulEnv)
    assert found.is_bounded
    assert not found.captures
    assert found.resets


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(shoal.ConfigurationError, match="steps must be at least 96"):
        check_restorable("CartPole-v1", steps=5)
