"""What a language model sees, what can be configured, and how an episode is copied."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import shoal
from shoal.envs.sokoban import SokobanConfig, SokobanEnv, SokobanGridEnv
from tests.worlds.sokoban.boards import env_with

BOARD = """
    #######
    #_X_O_#
    #_√S__#
    #____X#
    #######
"""
GRID = "#######\n#_X_O_#\n#_√S__#\n#____X#\n#######"
COORDINATES = """\
Board size: 5 rows x 7 cols (zero-indexed).
Targets: (1, 4), (2, 2), (2, 3)
Boxes: (1, 2), (3, 5)
Boxes on target: (2, 2)
Player: (2, 3)"""


def test_the_grid_is_a_line_of_symbols_for_each_row() -> None:
    assert env_with(BOARD).text() == GRID


def test_coordinates_are_lists() -> None:
    assert env_with(BOARD, observation_format="coord").text() == COORDINATES
    nothing_on_target = env_with("#####\n#PXO#\n#___#\n#___#\n#####", observation_format="coord")
    assert "Boxes on target: none\n" in nothing_on_target.text()


def test_both_are_one_after_the_other() -> None:
    env = env_with(BOARD, observation_format="grid_coord")
    assert env.text() == f"Coordinates: \n{COORDINATES}\nGrid Map: \n{GRID}"
    assert env.step("Up")[0] == env.text() == env.render()


def test_symbols_can_be_others_of_any_length() -> None:
    lookup = {0: "W", 1: ".", 2: "T", 3: "B", 4: "b", 5: "@", 6: "+"}
    assert env_with(BOARD, grid_lookup=lookup).text().splitlines()[2] == "W.B+..W"
    spaced = {code: f" {symbol} \t" for code, symbol in lookup.items()}
    assert env_with(BOARD, grid_lookup=spaced).text().splitlines()[2] == "".join(f" {each} \t" for each in "W.B+..W")


def test_actions_can_have_other_names() -> None:
    env = env_with(BOARD, action_lookup={1: "north", 2: "south", 3: "west", 4: "east"})
    assert env.step("Up")[4]["action_is_valid"] is False
    assert env.step("North")[0].splitlines()[1] == "#_XPO_#"


def test_keys_and_defaults_are_those_of_ragen() -> None:
    defaults = {field.name: getattr(SokobanConfig(), field.name) for field in dataclasses.fields(SokobanConfig)}
    assert defaults == {
        "dim_room": (6, 6), "dim_x": None, "dim_y": None, "max_steps": 100, "num_boxes": 3, "search_depth": 300,
        "render_mode": "text", "observation_format": "grid",
        "grid_lookup": {0: "#", 1: "_", 2: "O", 3: "√", 4: "X", 5: "P", 6: "S"},
        "grid_vocab": {
            "#": "wall", "_": "empty", "O": "target", "√": "box on target", "X": "box", "P": "player",
            "S": "player on target",
        },
        "action_lookup": {1: "Up", 2: "Down", 3: "Left", 4: "Right"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim_rom": (6, 6)}, "SokobanConfig has no field 'dim_rom'. Did you mean 'dim_room'?"),
        ({"num_boxes": 0}, "num_boxes must be a whole number of at least 1, got 0"),
        ({"max_steps": None}, "max_steps must be a whole number of at least 1, got None"),
        ({"search_depth": 2.5}, "search_depth must be a whole number of at least 1, got 2.5"),
        ({"dim_x": "7"}, "dim_x must be a whole number of at least 1, got '7'"),
        ({"dim_room": 6}, "dim_room must be two numbers, rows and columns, got 6"),
        ({"dim_room": (6, 6, 6)}, "dim_room must be two numbers, rows and columns"),
        ({"dim_room": (6, 2.5)}, "dim_room must be a whole number of at least 1, got 2.5"),
        ({"dim_room": (4, 9)}, "sides of at least 5 and at most 256 cells with its walls, got dim_room of 4 x 9"),
        ({"dim_x": 17, "dim_y": 16}, "at most 256 cells with its walls, got dim_room of 17 x 16"),
        ({"dim_room": (5, 5), "num_boxes": 8}, "num_boxes=8 and a player do not fit into a room of 5 x 5"),
        ({"render_mode": "rgb"}, "render_mode must be one of 'text', 'rgb_array', 'tiny_rgb_array', got 'rgb'"),
        ({"observation_format": "cord"}, "'grid_coord', got 'cord'. Did you mean 'coord'?"),
        ({"grid_lookup": {0: "#"}}, "grid_lookup must give a text for each of 0, 1, 2, 3, 4, 5, 6, got {0: '#'}"),
        ({"action_lookup": {0: "Up", 1: "Down"}}, "action_lookup must give a text for each of 1, 2, 3, 4, got"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    for make in (SokobanEnv, SokobanGridEnv, lambda **settings: SokobanEnv(settings)):
        with pytest.raises(shoal.ConfigurationError) as caught:
            make(**settings)
        assert message in str(caught.value)


def test_a_config_is_an_object_a_mapping_or_keywords() -> None:
    config = SokobanConfig(dim_room=(7, 8), num_boxes=2)
    texts = {
        SokobanEnv(config).reset(seed=4)[0],
        SokobanEnv({"dim_room": [7, 8], "num_boxes": 2}).reset(seed=4)[0],
        SokobanEnv(config, dim_room=np.array([7, 8])).reset(seed=4)[0],
        SokobanEnv(dim_x=7, dim_y=8, num_boxes=2).reset(seed=4)[0],
        gymnasium.make("shoal/Sokoban-v0", dim_room=(7, 8), num_boxes=2).reset(seed=4)[0],
    }
    assert len(texts) == 1
    assert len(texts.pop().splitlines()) == 7


def test_single_ones_are_environments_as_gymnasium_wants_them() -> None:
    check_env(SokobanEnv(), skip_render_check=True)
    check_env(SokobanGridEnv(), skip_render_check=True)
    env = SokobanGridEnv(dim_room=(5, 9), num_boxes=2)
    assert env.observation_space == spaces.MultiDiscrete(np.full((5, 9), 7), dtype=np.uint8)
    assert env.action_space == spaces.Discrete(4, start=1)


def test_stepping_before_the_first_reset_is_refused() -> None:
    with pytest.raises(shoal.ResetNeeded, match="call reset"):
        SokobanEnv().step(1)


def test_task_and_noise_are_two_seeds() -> None:
    env = SokobanEnv()
    first, _ = env.reset(seed=9)
    assert env.reset(seed=1, options={"task_seed": 9, "noise_seed": 4})[0] == first
    assert env.reset(seed=9, options={"task_seed": 10})[0] != first


@pytest.mark.parametrize(
    "twin_of", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"]
)
def test_a_copy_goes_its_own_way(twin_of: Any) -> None:
    env = SokobanEnv(max_steps=6)
    env.reset(seed=3)
    env.step(1)
    twin = twin_of(env)
    before = twin.text()
    results = [env.step(action) for action in (2, 3, 4, 1, 2)]
    assert twin.text() == before
    assert [twin.step(action) for action in (2, 3, 4, 1, 2)] == results
    assert results[-1][3]
    assert env.reset() == twin.reset()


def test_a_state_can_be_taken_and_given_back() -> None:
    env = SokobanEnv(max_steps=8)
    env.reset(seed=3)
    env.step(1)
    state = env.get_state()
    actions = (2, 3, 4, 1, 2, 4, 4)
    expected = [env.step(action) for action in actions]
    env.set_state(state)
    assert [env.step(action) for action in actions] == expected
    other = SokobanEnv(max_steps=8)
    other.set_state(state)
    assert [other.step(action) for action in actions] == expected
    assert expected[-1][3]


def test_it_can_be_solved_from_wherever_it_is() -> None:
    env = SokobanEnv(num_boxes=2)
    env.reset(seed=0)
    actions = env.solve()
    assert actions is not None
    env.step(actions[0])
    assert len(env.solve() or []) == len(actions) - 1
    lost = env_with("#####\n#X_P#\n#__O#\n#___#\n#####")
    assert lost.solve() is None
