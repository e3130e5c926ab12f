"""The solver finds the fewest moves, as a plain search does that knows nothing about boxes."""

from __future__ import annotations

from collections import deque

import pytest

import shoal
from shoal.envs.sokoban import SokobanEnv, solve
from tests.worlds.sokoban.boards import Sets


def fewest_moves(text: str) -> int | None:
    """How many moves solve a board, found by trying all."""
    sets = Sets(text)
    first = sets.player, frozenset(sets.boxes)
    todo, moves = deque([first]), {first: 0}
    while todo:
        here = todo.popleft()
        for action in range(1, 5):
            sets.player, sets.boxes = here[0], set(here[1])
            is_solved = sets.step(action)[1]
            if is_solved:
                return moves[here] + 1
            there = sets.player, frozenset(sets.boxes)
            if there not in moves:
                moves[there] = moves[here] + 1
                todo.append(there)
    return None


@pytest.mark.parametrize(("size", "num_boxes"), [((5, 5), 2), ((6, 6), 1), ((6, 6), 2), ((5, 8), 2)])
def test_a_solution_has_the_fewest_moves(size: tuple[int, int], num_boxes: int) -> None:
    env = SokobanEnv(dim_room=size, num_boxes=num_boxes, search_depth=40)
    for seed in range(15):
        text, _ = env.reset(seed=seed)
        assert len(solve(text) or []) == fewest_moves(text)


def test_from_random_positions_too_and_none_from_those_that_are_lost() -> None:
    env, found = SokobanEnv(num_boxes=2, search_depth=40), set()
    for seed in range(40):
        env.reset(seed=seed)
        env.action_space.seed(seed)
        for _ in range(15):
            text, _, terminated, _, _ = env.step(env.action_space.sample())
        if not terminated:
            actions, expected = solve(text), fewest_moves(text)
            assert (None if actions is None else len(actions)) == expected
            found.add(actions is None)
    assert found == {False, True}


def test_what_is_solved_already_needs_no_moves() -> None:
    assert solve("#####\n#P√_#\n#####") == []


def test_a_search_that_takes_too_long_is_given_up() -> None:
    text, _ = SokobanEnv(dim_room=(10, 10), num_boxes=5).reset(seed=0)
    assert solve(text) is not None
    assert solve(text, max_positions=50) is None


@pytest.mark.parametrize(
    ("board", "message"),
    [
        ("#####\n#P?O#\n#####", "this one has unknown symbols '?'"),
        ("#####\n#PXO\n#####", "this one has lines of lengths [5, 4, 5]"),
        ("#####\n#_XO#\n#####", "walls around it and one player; this one has 0 players"),
        ("#####\n#PXP#\n#####", "this one has 2 players"),
        ("_____\n#PXO#\n#####", "a board has walls around it"),
        ("", "this one has lines of lengths []"),
        ("\n".join(["#" * 20] * 20), "at most 256 cells"),
    ],
)
def test_what_is_no_board_is_refused(board: str, message: str) -> None:
    with pytest.raises(shoal.ConfigurationError) as caught:
        solve(board)
    assert message in str(caught.value)
