"""FrozenLake has Gymnasium's rules, whatever its random numbers are."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv as Original
from gymnasium.envs.toy_text.frozen_lake import generate_random_map
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.envs.frozen_lake import FrozenLake, FrozenLakeEnv, move
from shoal.envs.world import Rows

KEYWORDS: list[dict[str, Any]] = [
    {},
    {"map_name": "8x8"},
    {"is_slippery": False},
    {"success_rate": 0.8, "reward_schedule": (10, -5, -1)},
    {"desc": ["SFS", "HFG"], "success_rate": 0.5},
]


@pytest.mark.parametrize("keywords", KEYWORDS, ids=str)
def test_every_move_from_every_cell_is_that_of_gymnasium(keywords: dict[str, Any]) -> None:
    check_moves(keywords)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 9), st.booleans())
def test_every_move_on_any_map_is_that_of_gymnasium(seed: int, size: int, is_slippery: bool) -> None:
    check_moves({"desc": generate_random_map(size, seed=seed), "is_slippery": is_slippery})


def check_moves(keywords: dict[str, Any]) -> None:
    original, lake = Original(**keywords), FrozenLake(**keywords)
    assert lake.observation_space == original.observation_space
    assert lake.action_space == original.action_space
    row = Rows(lake, 1).state[0]
    for cell, action in itertools.product(range(lake.desc.size), range(4)):
        ways = original.P[cell][action]
        for slip, (_, next_cell, reward, terminated) in zip((-1, 0, 1) if len(ways) == 3 else (0,), ways, strict=True):
            row.position = cell
            assert move(lake.tables, row, (action + slip) % 4) == (reward, terminated)
            assert row.position == next_cell


@pytest.mark.parametrize("keywords", KEYWORDS, ids=str)
def test_slips_are_as_likely_as_in_gymnasium_and_infos_say_so(keywords: dict[str, Any]) -> None:
    """Every transition's frequency is within five standard deviations: a false alarm once in a hundred thousand runs."""
    original = Original(**keywords)
    envs = shoal.make("shoal/FrozenLake-v0", 500, backend="serial", max_episode_steps=1000, **keywords)
    random = np.random.default_rng(0)
    counts: dict[tuple[int, int], list[int]] = {}
    with envs:
        before, _ = envs.reset(seed=1)
        is_new = np.zeros(500, np.bool_)
        for _ in range(200):
            actions = random.integers(4, size=500)
            after, _, terminated, truncated, info = envs.step(actions)
            assert info["_prob"].all()
            for cell, action, found, probability in zip(
                before[~is_new], actions[~is_new], after[~is_new], info["prob"][~is_new], strict=True
            ):
                counts.setdefault((int(cell), int(action)), []).append(int(found))
                assert (probability, found) in {(p, s) for p, s, *_ in original.P[cell][action]}
            before, is_new = after, terminated | truncated
    for (cell, action), found in counts.items():
        expected: dict[int, float] = {}
        for probability, next_cell, *_ in original.P[cell][action]:
            expected[next_cell] = expected.get(next_cell, 0.0) + probability
        for next_cell, share in expected.items():
            deviation = abs(found.count(next_cell) - share * len(found))
            assert deviation <= 5 * max(1.0, (len(found) * share * (1 - share)) ** 0.5)


def test_episodes_begin_in_any_of_the_starts() -> None:
    with shoal.make("shoal/FrozenLake-v0", 400, backend="serial", desc=["SFS", "HFG"]) as envs:
        observation, info = envs.reset(seed=0)
    assert set(observation.tolist()) == {0, 2}
    assert 140 < (observation == 0).sum() < 260
    assert info["prob"].tolist() == [1.0] * 400


@pytest.mark.parametrize(("env_id", "limit"), [("shoal/FrozenLake-v0", 100), ("shoal/FrozenLake8x8-v0", 200)])
def test_an_episode_that_takes_too_long_is_truncated(env_id: str, limit: int) -> None:
    with shoal.make(env_id, 3, backend="serial", is_slippery=False) as envs:
        envs.reset()
        steps = [envs.step([0, 0, 0]) for _ in range(limit)]  # against the wall
    assert not any(step[2].any() for step in steps)
    assert [step[3].tolist() for step in steps] == [[False] * 3] * (limit - 1) + [[True] * 3]


def test_the_limit_of_steps_can_be_chosen() -> None:
    with shoal.make("shoal/FrozenLake-v0", 1, backend="serial", is_slippery=False, max_episode_steps=3) as envs:
        envs.reset()
        assert [bool(envs.step([0])[3][0]) for _ in range(3)] == [False, False, True]


def test_a_single_one_is_an_environment_as_gymnasium_wants_it() -> None:
    check_env(FrozenLakeEnv(), skip_render_check=True)
    with pytest.warns(UserWarning, match="shows nothing without a render_mode"):
        assert FrozenLakeEnv().render() is None
    env = gymnasium.make("shoal/FrozenLake-v0", render_mode="ansi", is_slippery=False)
    env.reset(seed=0)
    env.step(2)
    assert str(env.render()) == " S [F] F  F \n F  H  F  H \n F  F  F  H \n H  F  F  G "


def test_a_picture_shows_where_the_walker_is() -> None:
    with shoal.make("shoal/FrozenLake-v0", 2, backend="serial", render_mode="rgb_array", is_slippery=False) as envs:
        envs.reset()
        envs.step([2, 1])
        pictures: Any = envs.render()
    assert [picture.shape for picture in pictures] == [(64, 64, 3)] * 2
    assert (pictures[0][8, 24] == pictures[1][24, 8]).all()
    assert (pictures[0][8, 24] != pictures[1][8, 24]).any()


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"map_name": "5x5"}, "map_name must be one of '4x4', '8x8', got '5x5'"),
        ({"desc": ["SF", "F"]}, "desc must be lines of one length, one of them with an 'S' to begin in"),
        ({"desc": ["FF", "FG"]}, "desc must be lines of one length, one of them with an 'S' to begin in"),
    ],
)
def test_a_map_that_is_none_is_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=message):
        FrozenLakeEnv(**keywords)
    with pytest.raises(shoal.ConfigurationError, match=message):
        shoal.make("shoal/FrozenLake-v0", 2, backend="serial", **keywords)


def test_without_a_map_one_is_drawn_from_a_seed() -> None:
    first, again, other = (FrozenLakeEnv(map_name=None, map_seed=seed).desc for seed in (0, 0, 1))
    assert first.shape == (8, 8)
    assert (first == again).all()
    assert (first != other).any()


def test_an_action_that_is_none_is_refused() -> None:
    env = FrozenLakeEnv()
    env.reset()
    with pytest.raises(ValueError, match=r"the action 7 is not in Discrete\(4\)"):
        env.step(7)


def test_a_copy_goes_its_own_way() -> None:
    env = FrozenLakeEnv(success_rate=0.6)
    env.reset(seed=3)
    env.step(1)
    twin = pickle.loads(pickle.dumps(copy.deepcopy(env)))
    assert [env.step(2) for _ in range(5)] == [twin.step(2) for _ in range(5)]
