"""FrozenLake as text has the rules of the compiled FrozenLake, a map for each task, and slips by the noise's seed."""

from __future__ import annotations

import collections
import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import ConfigurationError
from shoal.envs.frozen_lake import FrozenLake, move
from shoal.envs.texts.frozen_lake import FrozenLakeTextConfig, FrozenLakeTextEnv, Lake, lake_of
from shoal.envs.world import Rows


def at(lake: Lake, position: int, **settings: Any) -> FrozenLakeTextEnv:
    """A world with this map and the player there."""
    env = FrozenLakeTextEnv(size=int(len(lake.cells) ** 0.5), **settings)
    env.reset(seed=0)
    env.lake, env.position = lake, position
    return env


@settings(max_examples=30)
@given(st.integers(0, 10**9), st.integers(2, 8), st.floats(0.3, 1.0))
def test_every_move_from_every_cell_is_that_of_the_kernel(seed: int, size: int, p: float) -> None:
    lake = lake_of(size, p, seed)
    letters = list(lake.cells.replace("_", "F").replace("O", "H"))
    letters[lake.start], letters[lake.goal] = "S", "G"
    desc = ["".join(letters[row * size : (row + 1) * size]) for row in range(size)]
    kernel = FrozenLake(desc=desc, is_slippery=False)
    row = Rows(kernel, 1).state[0]
    for cell, action in itertools.product(range(size * size), range(4)):
        row.position = cell
        reward, has_ended = move(kernel.tables, row, action)
        env = at(lake, cell, is_slippery=False)
        _, found_reward, terminated, _, info = env.step(action + 1)
        assert (found_reward, terminated, env.position) == (reward, has_ended, row.position)
        assert info["action_is_effective"] == (env.position != cell)


def test_a_walk_by_hand() -> None:
    lake = Lake("___O_____", start=0, goal=8)
    env = at(lake, 0, is_slippery=False)
    assert env.text() == "P__\nO__\n__G"
    nothing = {"action_is_valid": True, "action_is_effective": False, "success": False}
    effective = {**nothing, "action_is_effective": True}
    assert env.step("Up") == ("P__\nO__\n__G", 0.0, False, False, nothing)
    assert env.step("right") == ("_P_\nO__\n__G", 0.0, False, False, effective)
    assert env.step(2) == ("___\nOP_\n__G", 0.0, False, False, effective)
    assert env.step(np.int64(1)) == ("___\nX__\n__G", 0.0, True, False, effective)
    assert env.step(3) == ("___\nX__\n__G", 0.0, True, False, nothing), "there is no way out of a hole"
    env = at(lake, 7, is_slippery=False)
    assert env.step(" RIGHT ") == ("___\nO__\n__√", 1.0, True, False, {**effective, "success": True})
    assert env.render() == "___\nO__\n__√"


@pytest.mark.parametrize("action", [None, "", "Upwards", "support", 0, 5, -1, 2.5, "５", [1], {}, "x" * 10**6])
def test_what_is_no_action_changes_nothing(action: Any) -> None:
    env = FrozenLakeTextEnv()
    before, _ = env.reset(seed=3)
    after, reward, terminated, truncated, info = env.step(action)
    assert (after, reward, terminated, truncated) == (before, 0.0, False, False)
    assert info == {"action_is_valid": False, "action_is_effective": False, "success": False}
    env.step(1)
    twin = FrozenLakeTextEnv()
    twin.reset(seed=3)
    twin.step(1)
    assert env.text() == twin.text(), "no noise was used up"


def test_the_task_decides_the_map_and_the_noise_decides_the_slips() -> None:
    env = FrozenLakeTextEnv(size=6, p=1.0, success_rate=0.3)

    def walk(**options: Any) -> list[str]:
        seen = [env.reset(seed=9, options=options)[0]]
        return seen + [env.step(number % 4 + 1)[0] for number in range(12)]

    maps = {walk(task_seed=number)[0] for number in range(40)}
    assert len(maps) > 35
    walks = {tuple(walk(task_seed=1, noise_seed=number)) for number in range(20)}
    assert len({steps[0] for steps in walks}) == 1
    assert len(walks) > 10
    assert walk(task_seed=1, noise_seed=4) == walk(task_seed=1, noise_seed=4)


def test_mirrored_noise_slips_to_the_other_side() -> None:
    lake = Lake("_" * 25, start=12, goal=24)
    ends: list[tuple[int, int]] = []
    for seed in range(200):
        pair = []
        for mirrored in (False, True):
            env = FrozenLakeTextEnv(size=5, success_rate=0.5)
            env.reset(options={"noise_seed": seed, "mirrored": mirrored})
            env.lake, env.position = lake, 12
            env.step("Up")
            pair.append(env.position)
        ends.append((pair[0], pair[1]))
    assert set(ends) == {(7, 7), (11, 13), (13, 11)}
    slipped = sum(end != (7, 7) for end in ends)
    assert 70 < slipped < 130, "half of them, give or take four standard deviations"


def test_slips_are_as_likely_as_the_config_says() -> None:
    env = at(Lake("_" * 25, start=12, goal=24), 12, success_rate=0.8)
    ends: collections.Counter[int] = collections.Counter()
    for _ in range(4000):
        env.position = 12
        env.step("Left")
        ends[env.position] += 1
    assert set(ends) == {11, 7, 17}
    assert abs(ends[11] - 3200) < 130
    assert abs(ends[7] - 400) < 100


@pytest.mark.parametrize(("size", "p"), [(2, 0.0), (3, 0.2), (4, 0.8), (8, 0.5), (8, 0.9), (16, 0.7)])
def test_every_goal_can_be_reached_and_start_and_goal_are_anywhere(size: int, p: float) -> None:
    env = FrozenLakeTextEnv(size=size, p=p, is_slippery=False)
    starts = set()
    for seed in range(150):
        env.reset(seed=seed)
        starts.add(env.lake.start)
        for action in env.solve() or []:
            _, reward, terminated, _, info = env.step(action)
        assert (reward, terminated, info["success"], env.solve()) == (1.0, True, True, [])
    assert len(starts) > min(size * size, 20) * 0.8


def test_a_hole_is_the_end() -> None:
    env = at(Lake("_O__", start=0, goal=3), 1)
    assert env.solve() is None


def test_a_map_can_be_the_same_in_every_episode() -> None:
    env = FrozenLakeTextEnv(map_seed=7)
    assert {env.reset(seed=seed)[0] for seed in range(5)} == {env.reset(seed=99)[0]}
    other = FrozenLakeTextEnv(map_seed=8)
    assert other.reset(seed=0)[0] != env.reset(seed=0)[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 1}, "size must be from 2 to 64, got 1"),
        ({"size": 65}, "size must be from 2 to 64, got 65"),
        ({"size": "4"}, "size must be a whole number of at least 1, got '4'"),
        ({"p": 1.5}, r"p must be a number from 0 to 1, got 1\.5"),
        ({"success_rate": -1}, "success_rate must be a number from 0 to 1, got -1"),
        ({"is_slippery": 1}, "is_slippery must be True or False, got 1"),
        ({"sizes": 4}, "FrozenLakeTextConfig has no field 'sizes'. Did you mean 'size'?"),
        ({"render_mode": "human"}, "render_mode must be one of 'text', got 'human'"),
        ({"config": 4}, "config must be a FrozenLakeTextConfig or a mapping of its fields, got int"),
    ],
)
def test_a_config_that_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        FrozenLakeTextEnv(**settings)


def test_a_config_is_given_whole_or_by_its_fields() -> None:
    assert FrozenLakeTextEnv(FrozenLakeTextConfig(size=5)).config.size == 5
    assert FrozenLakeTextEnv({"size": 5, "render_mode": "text"}, p=0.5).config == FrozenLakeTextConfig(size=5, p=0.5)
    made: Any = gymnasium.make("shoal/FrozenLakeText-v0", size=6).unwrapped
    assert made.config.size == 6
    assert dict(made.config.action_lookup) == {1: "Left", 2: "Down", 3: "Right", 4: "Up"}
    assert set(made.config.grid_vocab) == set("P_OGX√")
