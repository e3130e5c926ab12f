"""Countdown: every puzzle can be solved, and answers are judged exactly."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from shoal import ConfigurationError
from shoal.envs.texts.arithmetic import parse
from shoal.envs.texts.countdown import CountdownEnv
from shoal.envs.texts.number_puzzles import Puzzle, solution_of


def judged(target: int, numbers: tuple[int, ...], answer: Any, **settings: Any) -> tuple[float, bool, bool, bool]:
    """Reward, end, validity and success."""
    env = CountdownEnv(**settings)
    env.reset(seed=0)
    env.puzzle = Puzzle(target, numbers)
    _, reward, terminated, _, info = env.step(answer)
    return reward, terminated, info["action_is_valid"], info["success"]


@pytest.mark.parametrize(
    ("target", "numbers", "answer", "expected"),
    [
        (24, (3, 3, 8, 8), "8 / (3 - 8 / 3)", (1.0, True, True, True)),
        (24, (8, 3, 8, 3), " 8/(3-8/3)\n", (1.0, True, True, True)),
        (24, (3, 3, 8, 8), "3 * 8", (0.0, True, True, False)),
        (24, (3, 8), "3 * 8 * 1", (0.0, True, True, False)),
        (24, (3, 8), "8 + 3", (0.1, True, True, False)),
        (24, (3, 8, 0), "3 * 8 / 0", (0.1, True, True, False)),
        (1, (1, 3, 3), "1 / 3 * 3", (1.0, True, True, True)),
        (5, (12, 7), "-7 + 12", (1.0, True, True, True)),
        (24, (3, 8), "24", (0.0, True, True, False)),
        (24, (3, 8), "3 * 8 = 24", (0.0, False, False, False)),
        (24, (3, 8), "3 ** 8", (0.0, False, False, False)),
        (24, (3, 8), "__import__('os')", (0.0, False, False, False)),
        (24, (3, 8), None, (0.0, False, False, False)),
        (24, (3, 8), 24, (0.0, False, False, False)),
        (24, (3, 8), "(" * 10**6, (0.0, False, False, False)),
    ],
)
def test_answers_by_hand(
    target: int, numbers: tuple[int, ...], answer: Any, expected: tuple[float, bool, bool, bool]
) -> None:
    assert judged(target, numbers, answer) == expected


def test_what_comes_close_is_not_the_target() -> None:
    assert judged(1, (3, 333_333, 999_998), "3 * 333333 / 999998")[0] == 0.1


def test_scores_are_those_of_the_config() -> None:
    assert judged(11, (3, 8), "3 + 8", score=5.0)[0] == 5.0
    assert judged(24, (3, 8), "3 + 8", format_score=0.25)[0] == 0.25


def test_an_episode_as_it_is_seen() -> None:
    env = CountdownEnv()
    text, _ = env.reset(seed=5)
    assert re.fullmatch(r"Target: \d+, nums: \[\d+(, \d+){2,3}\]", text)
    (answer,) = env.solve() or []
    seen, reward, terminated, _, info = env.step(answer)
    assert (seen, reward, terminated) == (f"{text}\nYour answer: {answer}", 1.0, True)
    assert info == {"action_is_valid": True, "action_is_effective": True, "success": True}
    assert env.solve() == []
    assert env.step(answer)[1:3] == (0.0, True), "there is one answer"
    env.reset(seed=5)
    env.step("1")
    assert env.solve() is None


@settings(max_examples=100)
@given(st.integers(0, 2**62))
def test_a_solver_solves_what_is_made(seed: int) -> None:
    check_that_it_is_solved(CountdownEnv(), seed)


@settings(max_examples=60)
@given(
    st.integers(0, 10**9),
    st.integers(2, 4),
    st.sampled_from(["+", "-", "*", "/", "+-*/", "*/"]),
    st.sampled_from([9, 30, 99]),
)
def test_a_solver_solves_what_other_configs_make(seed: int, count: int, operations: str, largest: int) -> None:
    env = CountdownEnv(num_numbers=(count, count), operations=operations, largest_number=largest, largest_target=10**6)
    check_that_it_is_solved(env, seed)
    assert len(env.puzzle.numbers) == count
    assert max(env.puzzle.numbers) <= largest


def check_that_it_is_solved(env: CountdownEnv, seed: int) -> None:
    env.reset(seed=seed)
    (answer,) = env.solve() or [None]
    _, reward, terminated, _, info = env.step(answer)
    assert (reward, terminated, info["success"]) == (1.0, True, True), env.puzzle


@pytest.mark.parametrize(
    ("puzzle", "is_solvable"),
    [
        (Puzzle(24, (3, 3, 8, 8)), True),
        (Puzzle(24, (1, 5, 5, 5)), True),
        (Puzzle(24, (1, 1, 1, 1)), False),
        (Puzzle(952, (25, 50, 75, 100)), False),
        (Puzzle(7, (3, 10)), True),
        (Puzzle(3, (0, 3)), True),
        (Puzzle(1, (2,)), False),
    ],
)
def test_the_solver_finds_an_answer_if_there_is_one(puzzle: Puzzle, is_solvable: bool) -> None:
    solution = solution_of(puzzle)
    assert (solution is not None) == is_solvable
    if solution is not None:
        value, numbers = parse(solution)
        assert value == puzzle.target
        assert sorted(numbers) == sorted(puzzle.numbers)


def test_a_puzzle_of_too_many_numbers_is_not_begun() -> None:
    with pytest.raises(ConfigurationError, match="a puzzle may have 6 numbers to be solved, got 7"):
        solution_of(Puzzle(1, (1,) * 7))


# -- from a file ---------------------------------------------------------------------------------------------------------


def written(path: Path, **columns: list[Any]) -> str:
    parquet.write_table(pyarrow.table(columns), path)
    return str(path)


def test_puzzles_are_read_from_a_file(tmp_path: Path) -> None:
    path = written(
        tmp_path / "train.parquet",
        target=[11, 24, 5, 9, None, 3, -1, 7],
        nums=[[3, 8], [3, 8], [12, 7], [], [1], None, [1, 2], [1, 2, 4]],
    )
    env = CountdownEnv(train_path=path)
    texts = [env.reset(seed=seed)[0] for seed in range(4)]
    assert texts == [
        "Target: 11, nums: [3, 8]",
        "Target: 5, nums: [12, 7]",
        "Target: 7, nums: [1, 2, 4]",
        "Target: 11, nums: [3, 8]",
    ], "what plus and minus do not solve is left out"
    for seed in range(3):
        check_that_it_is_solved(env, seed)
    assert CountdownEnv(train_path=path, max_instances=1).reset(seed=1)[0] == "Target: 11, nums: [3, 8]"


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    path = written(tmp_path / "train.parquet", target=[11], nums=[[3, 8]])
    assert CountdownEnv(train_path=path).reset(seed=0)[0] == "Target: 11, nums: [3, 8]"
    written(tmp_path / "train.parquet", target=[5], nums=[[3, 8]])
    os.utime(path, ns=(1, 1))
    assert CountdownEnv(train_path=path).reset(seed=0)[0] == "Target: 5, nums: [3, 8]"


def test_a_file_without_puzzles_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="train_path: there is no file .*none.parquet. Leave train_path out"):
        CountdownEnv(train_path=str(tmp_path / "none.parquet"))
    path = written(tmp_path / "other.parquet", target=[1], numbers=[[1]])
    with pytest.raises(ConfigurationError, match="has no column 'nums'; it has target, numbers"):
        CountdownEnv(train_path=path)
    path = written(tmp_path / "hard.parquet", target=[24], nums=[[3, 8]])
    with pytest.raises(
        ConfigurationError, match="none of the first 1 rows of .* is a puzzle that plus and minus solve"
    ):
        CountdownEnv(train_path=path)
    (tmp_path / "text.parquet").write_text("no such thing")
    with pytest.raises(ConfigurationError, match="text.parquet cannot be read as a Parquet file"):
        CountdownEnv(train_path=str(tmp_path / "text.parquet"))
    path = written(tmp_path / "fine.parquet", target=[1], nums=[[1]])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=re.escape("not installed: pip install 'shoal[llm]'")):
        CountdownEnv(train_path=path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"num_numbers": (4, 3)},
            r"num_numbers must be two whole numbers from 2 to 6, the smaller one first, got \(4, 3\)",
        ),
        ({"num_numbers": 3}, "num_numbers must be two whole numbers from 2 to 6, the smaller one first, got 3"),
        ({"operations": "+^"}, r"operations must be some of '\+-\*/', got '\+\^'"),
        ({"largest_number": 10**7}, "largest_number must be at most 999999, got 10000000"),
        ({"largest_target": 0}, "largest_target must be a whole number of at least 1, got 0"),
        ({"train_paht": "x"}, "CountdownConfig has no field 'train_paht'. Did you mean 'train_path'?"),
    ],
)
def test_a_config_that_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CountdownEnv(**settings)


def test_puzzles_that_hardly_exist_are_not_searched_for_forever() -> None:
    env = CountdownEnv(operations="*", num_numbers=(6, 6), largest_target=1)
    with pytest.raises(ConfigurationError, match="no puzzle of 6 numbers up to 99 with a target up to 1 was found"):
        env.reset(seed=0)


def test_numbers_from_a_config_file_may_be_a_list() -> None:
    assert CountdownEnv({"num_numbers": [2, 2]}).config.num_numbers == (2, 2)
