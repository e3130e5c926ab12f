"""Levels: each can be solved, is the same for all who share its seed, and may be made ahead."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.envs.sokoban import SokobanConfig, SokobanEnv, SokobanGridEnv, levels, solve
from shoal.envs.sokoban.cells import BOX, BOX_ON_TARGET, FLOOR, PLAYER, WALL, is_target
from shoal.envs.sokoban.levels import Levels
from tests.scripts import run_script

CONFIGS: list[dict[str, Any]] = [
    {},
    {"num_boxes": 1},
    {"num_boxes": 1, "search_depth": 15},
    {"num_boxes": 1, "search_depth": 30},
    {"num_boxes": 2, "dim_room": [5, 5]},
    {"num_boxes": 2, "dim_room": [8, 8], "search_depth": 10},
    {"num_boxes": 4, "dim_room": (7, 9), "search_depth": 100},
    {"num_boxes": 3, "dim_room": (10, 10)},
    {"num_boxes": 2, "dim_x": 5, "dim_y": 20, "search_depth": 50},
]
SMALL: dict[str, Any] = {"num_boxes": 1, "search_depth": 15}


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_every_level_can_be_solved(config: dict[str, Any]) -> None:
    env = SokobanEnv(config, max_steps=1000)
    beginnings = set()
    for seed in range(60):
        text, _ = env.reset(seed=seed)
        beginnings.add(text)
        check_board(env)
        actions = env.solve()
        assert actions is not None, text
        results = [env.step(action) for action in actions]
        assert [result[2] for result in results] == [False] * (len(actions) - 1) + [True]
        assert all(result[4]["action_is_effective"] for result in results)
        assert results[-1][4]["success"]
        total = sum(result[1] for result in results)
        assert total == pytest.approx(10 + env.config.num_boxes - 0.1 * len(actions))
    assert len(beginnings) > 45


def check_board(env: SokobanEnv) -> None:
    """As many boxes as targets, none of them on one; walls all around; and no floor that hangs apart."""
    board, room = env.board, env.config.room
    assert board.shape == (room.num_rows, room.num_columns)
    assert (board == BOX).sum() == room.num_boxes == sum(map(is_target, board.reshape(-1)))
    assert not (board == BOX_ON_TARGET).any()
    assert (board >= PLAYER).sum() == 1
    inside = np.zeros_like(board)
    inside[1:-1, 1:-1] = board[1:-1, 1:-1]
    assert (inside == board).all()
    todo, found = [tuple(np.argwhere(board != WALL)[0])], set()
    while todo:
        cell = todo.pop()
        if cell not in found and board[cell] != WALL:
            found.add(cell)
            todo += [(cell[0] + down, cell[1] + right) for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0))]
    assert len(found) == (board != WALL).sum() >= room.num_boxes + 2


def test_levels_differ_in_everything() -> None:
    env, seen = SokobanEnv(), []
    for seed in range(2000):
        env.reset(seed=seed)
        seen.append(env.board)
    boards = np.array(seen)
    inside = boards[:, 1:-1, 1:-1]
    for kind in (WALL, FLOOR, PLAYER):
        assert (inside == kind).any(axis=0).all(), "anything may be anywhere"
    corners = np.zeros((4, 4), np.bool_)
    corners[[0, 0, -1, -1], [0, -1, 0, -1]] = True
    assert ((inside == BOX).any(axis=0) != corners).all(), "but no box in a corner, from which nobody could push it"
    assert len(np.unique(boards, axis=0)) > 1900
    lengths = [len(solve(board) or []) for board in boards[:100]]
    assert min(lengths) >= 1
    assert np.median(lengths) >= 10, "they are not too easy"


DIGEST = """
    import hashlib, sys
    from shoal.envs.sokoban import SokobanEnv, SokobanGridEnv, solve
    both = SokobanEnv(num_boxes=1, search_depth=15), SokobanGridEnv(num_boxes=1, search_depth=15)
    found = []
    for seed in range(4):
        (text, _), (board, _) = (env.reset(seed=seed) for env in both)
        found += [text, board.tolist(), solve(board), *(env.step(1 + seed) [1:] for env in both)]
    print(hashlib.sha256(repr(found).encode()).hexdigest())
    print("numba" in sys.modules)
"""


def test_a_level_depends_on_its_seed_and_on_nothing_else() -> None:
    """Not on the process's hashes, not on what was made before, and not on whether rules are compiled."""
    salted = run_script(DIGEST, env={**os.environ, "PYTHONHASHSEED": "1"})
    otherwise = run_script(DIGEST, env={**os.environ, "PYTHONHASHSEED": "2", "SHOAL_COMPILE": "0"})
    assert salted.stdout.split()[1:] == ["True"], salted.stderr
    assert otherwise.stdout.split()[1:] == ["False"], otherwise.stderr
    assert salted.stdout.split()[0] == otherwise.stdout.split()[0]


def test_both_faces_begin_with_the_same_level() -> None:
    env = SokobanEnv()
    with shoal.make("shoal/SokobanGrid-v0", 20, backend="serial") as envs:
        boards, _ = envs.reset(seed=100)
    for place, board in enumerate(boards):
        env.reset(seed=100 + place)
        assert (env.board == board).all()


def test_a_level_that_cannot_be_found_is_an_error_that_says_what_to_do() -> None:
    for env in (SokobanEnv(search_depth=2), SokobanGridEnv(search_depth=2)):
        with pytest.raises(shoal.ConfigurationError, match="no Sokoban level was found: .* raise search_depth"):
            env.reset(seed=0)
        with pytest.raises(shoal.ConfigurationError, match="no Sokoban level was found"):
            env.reset(seed=0)


def test_a_level_is_made_once_for_all_who_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    new = Levels._make

    def note(self: Levels, task_seed: int) -> Any:
        made.append(task_seed)
        return new(self, task_seed)

    monkeypatch.setattr(Levels, "_make", note)
    envs = [SokobanEnv(SMALL, search_depth=16) for _ in range(4)]
    texts = [env.reset(seed=7)[0] for env in envs]
    assert len(set(texts)) == 1
    assert made == [7]
    envs[0].step("Up")
    envs[0].step("Left")
    assert envs[1].reset(seed=3, options={"task_seed": 7})[0] == texts[0], "nobody has changed what is kept"
    assert made == [7]


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "shoal-levels":
            thread.join()


def test_levels_made_ahead_are_those_made_when_they_are_needed() -> None:
    room = SokobanConfig(**SMALL).room
    ahead, then = Levels(room), Levels(room)
    ahead.prepare(range(30))
    wait_for_threads()
    assert ahead.of.cache_info().currsize == 30
    for seed in range(30):
        assert ahead.of(seed) == then.of(seed)


def test_slow_levels_are_made_before_an_unseeded_reset_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = SokobanEnv(SMALL, search_depth=17)
    expected = [plain.reset(seed=5)[0], *(plain.reset()[0] for _ in range(10))]
    levels.levels_of.cache_clear()
    monkeypatch.setattr(levels, "SLOW_SECONDS", -1.0)
    env = SokobanEnv(SMALL, search_depth=17)
    found = []
    waited_for: list[str] = []
    new = Levels._make

    def note(self: Levels, task_seed: int) -> Any:
        waited_for.append(threading.current_thread().name)
        return new(self, task_seed)

    monkeypatch.setattr(Levels, "_make", note)
    found.append(env.reset(seed=5)[0])
    for _ in range(10):
        wait_for_threads()
        found.append(env.reset()[0])
    wait_for_threads()
    assert found == expected
    assert waited_for[0] == "MainThread"
    assert waited_for[1:] == ["shoal-levels"] * 11


def test_many_threads_that_ask_for_the_same_get_the_same() -> None:
    shared, found = Levels(SokobanConfig(num_boxes=2).room), []

    def ask() -> None:
        found.append([shared.of(seed) for seed in range(20)])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(each == found[0] for each in found)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "MOST_KEPT", 10)
    few = Levels(SokobanConfig(**SMALL).room)
    first = few.of(0)
    for seed in range(25):
        few.of(seed)
    assert few.of.cache_info().currsize == 10
    assert few.of(0) == first


def test_where_no_thread_can_be_started_levels_are_made_when_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    env = SokobanEnv(SMALL)
    expected = env.reset(seed=1)[0]
    monkeypatch.setattr(threading.Thread, "start", refuse)
    env.prepare([1, 2, 3])
    assert env.reset(seed=1)[0] == expected


def test_a_process_ends_while_levels_are_being_made() -> None:
    start = time.monotonic()
    done = run_script("""
        from shoal.envs.sokoban import SokobanEnv
        env = SokobanEnv(dim_room=(16, 16), num_boxes=5)
        env.reset(seed=0)
        env.prepare(range(1, 1000))
        print("end")
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", ""), time.monotonic() - start


def test_a_forked_process_makes_its_own_levels() -> None:
    done = run_script("""
        import os, sys
        from shoal.envs.sokoban import SokobanEnv
        env = SokobanEnv(dim_room=(10, 10))
        expected = [env.reset(seed=seed)[0] for seed in range(3)]
        env.prepare(range(3, 1000))
        for number in range(20):
            if (child := os.fork()) == 0:
                found = [env.reset(seed=seed)[0] for seed in (0, 1, 2, 3 + number)]
                env.prepare([5000])
                os._exit(found[:3] != expected)
            assert os.waitpid(child, 0)[1] == 0
        print("end")
    """)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
