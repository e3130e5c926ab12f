"""The three autoreset modes, step by step, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from shoal import ParallelEnv, ResetNeeded
from tests.envs import GrumpyEnv, counting

Make = Callable[..., ParallelEnv]


def counts(observation: Any) -> list[int]:
    return [int(count) for count in observation[:, 0]]


def test_next_step_resets_with_the_step_after_the_last(make: Make) -> None:
    envs = make([counting(2), counting(3), counting(4)], autoreset_mode=AutoresetMode.NEXT_STEP)
    assert counts(envs.reset()[0]) == [0, 0, 0]
    envs.step([1, 1, 1])
    observation, reward, terminated, _, _ = envs.step([2, 2, 2])
    assert (counts(observation), terminated.tolist()) == ([2, 2, 2], [True, False, False])
    observation, reward, terminated, truncated, info = envs.step([3, 3, 3])
    assert counts(observation) == [0, 3, 3]
    assert reward.tolist() == [0, 3, 3]
    assert terminated.tolist() == [False, True, False]
    assert info["resets"].tolist() == [2, 1, 1]
    observation, *_ = envs.step([4, 4, 4])
    assert counts(observation) == [1, 0, 4]


def test_same_step_resets_at_once_and_hands_over_the_end(make: Make) -> None:
    envs = make([counting(2), counting(3), counting(4)], autoreset_mode="SameStep")
    envs.reset()
    envs.step([1, 1, 1])
    observation, reward, terminated, _, info = envs.step([2, 2, 2])
    assert counts(observation) == [0, 2, 2]
    assert reward.tolist() == [2, 2, 2]
    assert terminated.tolist() == [True, False, False]
    assert info["final_obs"][0].tolist() == [2, 1]
    assert info["final_obs"][1] is None
    assert info["_final_obs"].tolist() == [True, False, False]
    assert info["final_info"]["count"].tolist() == [2, 0, 0]
    assert info["count"].tolist() == [0, 2, 2]
    observation, *_ = envs.step([1, 1, 1])
    assert counts(observation) == [1, 0, 3]


def test_disabled_leaves_the_reset_to_the_caller(make: Make) -> None:
    envs = make([counting(2), counting(4)], autoreset_mode=AutoresetMode.DISABLED)
    envs.reset()
    envs.step([1, 1])
    _, _, terminated, truncated, _ = envs.step([1, 1])
    assert terminated.tolist() == [True, False]
    for _ in range(2):
        with pytest.raises(ResetNeeded, match="the episode of environment 0 has ended and autoreset is disabled"):
            envs.step([1, 1])
    observation, _ = envs.reset(options={"reset_mask": terminated | truncated})
    assert counts(observation) == [0, 2]
    assert counts(envs.step([1, 1])[0]) == [1, 3]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_an_explicit_reset_after_an_episodes_end_is_the_only_one(make: Make, mode: AutoresetMode) -> None:
    """Without shared memory, Gymnasium resets a second time and swallows the first action."""
    envs = make([counting(2)] * 2, autoreset_mode=mode)
    envs.reset()
    envs.step([1, 1])
    envs.step([1, 1])
    _, info = envs.reset()
    assert info["resets"].tolist() == ([2, 2] if mode is AutoresetMode.NEXT_STEP else [3, 3])
    observation, reward, *_ = envs.step([3, 4])
    assert counts(observation) == [1, 1]
    assert reward.tolist() == [3, 4]


def test_the_mode_is_in_the_metadata_and_a_wrong_one_is_refused(make: Make) -> None:
    for mode in AutoresetMode:
        assert make([counting()], autoreset_mode=mode.value).metadata["autoreset_mode"] is mode
    with pytest.raises(
        ValueError, match="autoreset_mode must be one of 'NextStep', 'SameStep', 'Disabled', got 'Sometimes'"
    ):
        make([counting()], autoreset_mode="Sometimes")


def test_an_environment_that_failed_must_be_reset_before_it_goes_on(make: Make) -> None:
    envs = make([counting(100), GrumpyEnv, counting(100)])
    envs.reset()
    envs.step([0, 0, 0])
    with pytest.raises(ValueError, match="environment 1"):
        envs.step([0, 0, 0])
    with pytest.raises(ResetNeeded, match="environment 1 failed, and must be reset before the next step"):
        envs.step([0, 0, 0])
    observation, _ = envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert counts(observation) == [2, 0, 2]
    assert counts(envs.step([0, 0, 0])[0]) == [3, 1, 3]
