"""Batches of actions: refused whole, or given to the environments as they are."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from shoal import (
    InvalidAction,
    ParallelEnv,
)
from tests.envs import SpaceEnv, counting

Make = Callable[..., ParallelEnv]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 0], "action has shape (2,), but this batch needs (3,): one action for each of the 3 environments"),
        ([0, 0, 0, 0], "action has shape (4,), but this batch needs (3,)"),
        (np.zeros((3, 1), int), "action has shape (3, 1), but this batch needs (3,)"),
        (np.array([0.5, 0, 0]), "action has dtype float64, which cannot become the action space's int64"),
        (np.array([np.nan, 0, 0]), "action has dtype float64"),
        ([0, 5, 0], "action has values that are not in Discrete(5)"),
        ([0, -1, 0], "action has values that are not in Discrete(5)"),
        (None, "action cannot become an array of shape (3,): got None"),
        ("abc", "action cannot become an array of shape (3,): got 'abc'"),
        ({"a": 1}, "action cannot become an array of shape (3,): got {'a': 1}"),
        ([0, None, 0], "action has dtype object"),
        ([[0], [0, 1], 2], "action cannot become an array"),
        (3, "action has shape (), but this batch needs (3,)"),
    ],
)
def test_a_wrong_batch_is_refused_and_the_next_step_is_fine(make: Make, actions: Any, message: str) -> None:
    envs = make([counting(100)] * 3)
    envs.reset()
    with pytest.raises(InvalidAction, match=re.escape(message)) as caught:
        envs.step(actions)
    assert isinstance(caught.value, ValueError)
    assert "Nothing was sent to the environments." in str(caught.value)
    observation, *_ = envs.step([1, 1, 1])
    assert observation[:, 0].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("space", "actions", "message"),
    [
        (spaces.Box(-1, 1, (2,)), np.full((20, 2), np.nan), "action has values that are not in Box"),
        (spaces.Discrete(3, start=2), [1] * 20, "action has values that are not in Discrete(3, start=2)"),
        (spaces.Discrete(3), [3] * 20, "action has values that are not in Discrete(3)"),
        (spaces.Discrete(3), [-1] * 20, "action has values that are not in Discrete(3)"),
        (spaces.MultiDiscrete([2, 3]), [[1, 3]] * 20, "action has values that are not in MultiDiscrete([2 3])"),
        (spaces.MultiBinary(2), [[1, 2]] * 20, "action has values that are not in MultiBinary(2)"),
        (spaces.Text(5), ["a"] * 3, "action has 3 actions for 20 environments"),
        (spaces.Text(5), "aaaa", "action must be a sequence with one action for each of the 20 environments"),
        (spaces.Text(5), 3, "action must be a sequence with one action for each of the 20 environments, got 3"),
        (spaces.Dict({"a": spaces.Discrete(2)}), [0] * 20, "must be a dictionary with the keys ['a']"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"b": [0] * 20}, "the batch of actions has no 'a'"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"a": [0] * 19}, "action['a'] has shape (19,)"),
        (spaces.Tuple([spaces.Discrete(2)] * 2), ([0] * 20,), "must be a tuple of 2 batches"),
        (spaces.Tuple([spaces.Discrete(2)] * 2), ([0] * 20, [2] * 20), "action[1] has values that are not in"),
    ],
)
def test_every_kind_of_action_is_checked(space: Any, actions: Any, message: str) -> None:
    fns = [functools.partial(SpaceEnv, spaces.Discrete(2), space)] * 20
    with ParallelEnv(fns, backend="serial") as envs:
        envs.reset(seed=0)
        with pytest.raises(InvalidAction, match=re.escape(message)):
            envs.step(actions)
        envs.step(envs.action_space.sample())


@pytest.mark.parametrize("actions", [0, None, "ab", {"a": 1}])
def test_a_batch_of_the_wrong_kind_is_a_type_error_too(make: Make, actions: Any) -> None:
    envs = make([counting(100)] * 2)
    envs.reset()
    with pytest.raises(TypeError):
        envs.step(actions)


@pytest.mark.parametrize("num_envs", [2, 70])
def test_the_action_of_an_environment_that_will_be_reset_need_not_make_sense(make: Make, num_envs: int) -> None:
    envs = make([counting(1), *[counting(100)] * (num_envs - 1)])
    envs.reset()
    envs.step([0] * num_envs)
    observation, *_ = envs.step([-1, *[0] * (num_envs - 1)])
    assert observation[:2, 0].tolist() == [0, 2]
    with pytest.raises(InvalidAction):
        envs.step([-1, *[0] * (num_envs - 1)])
    envs.step([0] * num_envs)
    with pytest.raises(InvalidAction):
        envs.step([0, -1, *[0] * (num_envs - 2)])
    envs.reset()
    with pytest.raises(InvalidAction):
        envs.step([-1] * num_envs)


def test_actions_in_double_precision_are_not_rounded(make: Make) -> None:
    space = spaces.Dict(
        {"a": spaces.Box(-1, 1, (2,)), "b": spaces.Box(-1, 1, ()), "c": spaces.Box(-1, 1, (1,), np.float16)}
    )
    envs = make([functools.partial(SpaceEnv, spaces.Discrete(2), space)] * 3)
    envs.reset(seed=0)
    actions = {"a": np.full((3, 2), 0.1), "b": np.full(3, 0.1, np.float32), "c": np.full((3, 1), 0.1, np.float32)}
    for _ in range(2):
        *_, info = envs.step(actions)
        for (given,) in info["given"]:
            assert given["a"].dtype == np.float64
            assert given["a"].tolist() == [0.1, 0.1]
            assert given["b"] == np.float32(0.1)
            assert given["c"].tolist() == [np.float32(0.1)]


def test_continuous_actions_beyond_their_bounds_are_the_environments_to_clip(make: Make) -> None:
    envs = make([functools.partial(SpaceEnv, spaces.Discrete(2), spaces.Box(-1, 1, (1,)))] * 2)
    envs.reset(seed=0)
    *_, info = envs.step(np.array([[5.0], [-np.inf]]))
    assert [given[0].tolist() for given in info["given"]] == [[5.0], [-np.inf]]
