"""What a move does, on boards of our own and beside the rules written down a second time."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.envs.sokoban import SokobanEnv, SokobanGridEnv
from tests.worlds.sokoban.boards import Sets, env_with

MOVES = [
    pytest.param("#P__XO#", "Right", "#_P_XO#", -0.1, True, id="walk"),
    pytest.param("#P__XO#", "Left", "#P__XO#", -0.1, False, id="into a wall"),
    pytest.param("#_PX_O#", "Right", "#__PXO#", -0.1, True, id="push"),
    pytest.param("#_√XP_#", "Left", "#_√XP_#", -0.1, False, id="push two boxes"),
    pytest.param("#XP__O#", "Left", "#XP__O#", -0.1, False, id="push into a wall"),
    pytest.param("#__PXO#", "Right", "#___P√#", 0.9, True, id="onto a target"),
    pytest.param("#_P√__#", "Right", "#__SX_#", -1.1, True, id="off a target"),
    pytest.param("#_P√O_#", "Right", "#__S√_#", -0.1, True, id="from target to target"),
    pytest.param("#_S_X_#", "Right", "#_OPX_#", -0.1, True, id="the player leaves a target"),
    pytest.param("#_PO_X#", "Right", "#__S_X#", -0.1, True, id="the player enters a target"),
]


@pytest.mark.parametrize(("before", "action", "after", "reward", "is_effective"), MOVES)
@pytest.mark.parametrize("is_upright", [False, True], ids=["across", "down"])
def test_a_move(before: str, action: str, after: str, reward: float, is_effective: bool, is_upright: bool) -> None:
    def board(line: str) -> str:
        lines = ["#######", line, "#____X#", "#_____#", "#######"]  # the other box is never on a target
        return "\n".join(map("".join, zip(*lines, strict=True)) if is_upright else lines)

    env = env_with(board(before))
    if is_upright:
        action = {"Right": "Down", "Left": "Up"}[action]
    observation, found, terminated, truncated, info = env.step(action)
    assert observation == env.render() == board(after)
    assert found == pytest.approx(reward)
    assert (terminated, truncated) == (False, False)
    assert info == {"action_is_valid": True, "action_is_effective": is_effective, "success": False}


def test_the_last_box_on_its_target_ends_the_episode() -> None:
    env = env_with("""
        #######
        #PXO__#
        #_√___#
        #_____#
        #######
    """)
    observation, reward, terminated, truncated, info = env.step(4)
    assert observation.splitlines()[1] == "#_P√__#"
    assert reward == pytest.approx(-0.1 + 1 + 10)
    assert (terminated, truncated) == (True, False)
    assert info == {"action_is_valid": True, "action_is_effective": True, "success": True}
    # Nothing more can be had from it.
    assert env.step(3) == (observation, 0.0, True, False, {**info, "action_is_effective": False})


def test_what_is_no_action_changes_nothing_and_is_no_step() -> None:
    env = SokobanEnv(max_steps=2)
    first, _ = env.reset(seed=1)
    for nonsense in (None, 0, 5, "jump", "", "√", [1], 1.5, "Up, Down", "\ud800"):
        observation, *rest, info = env.step(nonsense)
        assert (observation, rest) == (first, [0.0, False, False])
        assert info == {"action_is_valid": False, "action_is_effective": False, "success": False}
    assert [env.step(name)[3] for name in (" up ", np.int64(2))] == [False, True]


def test_after_max_steps_the_episode_is_truncated() -> None:
    env = SokobanEnv(max_steps=5)
    env.reset(seed=0)
    assert [env.step(1 + number % 2)[3] for number in range(5)] == [False] * 4 + [True]
    env.reset(seed=0)
    assert not env.step(1)[3]


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([(6, 6, 1), (6, 6, 3), (5, 9, 2)]), st.data())
def test_moves_are_those_of_sets_of_cells(seed: int, kind: tuple[int, int, int], data: st.DataObject) -> None:
    settings = {"dim_room": kind[:2], "num_boxes": kind[2], "search_depth": 30}
    env, grid = SokobanEnv(settings), SokobanGridEnv(config=settings)
    text, _ = env.reset(seed=seed)
    grid.reset(seed=seed)
    sets = Sets(text)
    assert sets.text() == text
    for action in data.draw(st.lists(st.integers(1, 4), max_size=60)):
        text, reward, terminated, _, info = env.step(action)
        seen, *others = grid.step(action)
        expected = sets.step(action)
        assert text == sets.text()
        assert reward == pytest.approx(expected[0])
        assert (terminated, info["action_is_effective"]) == expected[1:]
        assert seen.tolist() == env.board.tolist()
        assert others == [reward, terminated, False, info]
        if terminated:
            break


def test_a_single_move_by_hand_is_read_as_written() -> None:
    """The symbols of the tests above are those of the prompts."""
    env = env_with("#####\n#PXO#\n#___#\n#___#\n#####")
    assert {symbol: env.config.grid_vocab[symbol] for symbol in "PXO#_"} == {
        "P": "player", "X": "box", "O": "target", "#": "wall", "_": "empty",
    }  # fmt: skip
    assert env.text() == dedent("#####\n#PXO#\n#___#\n#___#\n#####")
