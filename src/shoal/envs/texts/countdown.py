"""Countdown: make a number from some others with plus, minus, times and divided by. ``shoal/Countdown-v0``.

The action is an expression. It is read as arithmetic, exactly, and never executed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from shoal.envs.texts.arithmetic import MOST_DIGITS, NotArithmetic, parse
from shoal.envs.texts.number_puzzles import MOST_NUMBERS, Puzzle, made_puzzle, puzzles_from, solution_of
from shoal.envs.texts.text_env import TextEnv
from shoal.vector.arguments import check_count
from shoal.vector.errors import ConfigurationError

LARGEST = 10**MOST_DIGITS - 1


@dataclass(frozen=True)
class CountdownConfig:
    """Where puzzles come from, and what solving one is worth."""

    train_path: str | None = None
    """A Parquet file with the columns ``target`` and ``nums``; ``None`` for puzzles that are made from the task's seed."""
    max_instances: int = 20000
    """So many rows of the file are looked at."""
    score: float = 1.0
    """For the target."""
    format_score: float = 0.1
    """For an expression of the right numbers that comes to something else."""
    num_numbers: tuple[int, int] = (3, 4)
    """How many numbers a puzzle has that is made: at least, at most."""
    largest_number: int = 99
    """The largest of them."""
    largest_target: int = 100
    """The largest target that is made."""
    operations: str = "+-"
    """With which the puzzles that are made can be solved, of ``+-*/``. A solution may use all four."""
    render_mode: str = "text"
    """What ``render()`` returns."""

    def __post_init__(self) -> None:
        for name in ("max_instances", "largest_number", "largest_target"):
            check_count(name, getattr(self, name))
        if self.largest_number > LARGEST:
            raise ConfigurationError(f"largest_number must be at most {LARGEST}, got {self.largest_number}")
        fewest, most = _pair(self.num_numbers)
        if not 2 <= fewest <= most <= MOST_NUMBERS:
            raise ConfigurationError(
                f"num_numbers must be two whole numbers from 2 to {MOST_NUMBERS}, the smaller one first, "
                f"got {self.num_numbers!r}"
            )
        object.__setattr__(self, "num_numbers", (fewest, most))
        if not self.operations or set(self.operations) - set("+-*/"):
            raise ConfigurationError(f"operations must be some of '+-*/', got {self.operations!r}")


def _pair(value: Any) -> tuple[int, int]:
    try:
        fewest, most = value
        return int(fewest), int(most)
    except (TypeError, ValueError):
        return 0, 0


class CountdownEnv(TextEnv):
    """Say one expression."""

    config_class = CountdownConfig
    config: CountdownConfig

    def __init__(self, config: Any = None, *, render_mode: str | None = None, **settings: Any) -> None:
        super().__init__(config, render_mode=render_mode, **settings)
        if self.config.train_path is not None:
            puzzles_from(self.config.train_path, self.config.max_instances)

    def begin(self, task_seed: int) -> None:
        """Make a puzzle, or take one of the file's."""
        config = self.config
        if config.train_path is not None:
            puzzles = puzzles_from(config.train_path, config.max_instances)
            self.puzzle = puzzles[task_seed % len(puzzles)]
        else:
            self.puzzle = made_puzzle(
                task_seed,
                config.num_numbers,
                config.largest_number,
                config.largest_target,
                config.operations,
            )
        self._said: str | None = None
        self._is_solved = False

    def action_of(self, action: Any) -> Any:
        """The expression, if it is one."""
        if not isinstance(action, str):
            return None
        try:
            parse(action)
        except NotArithmetic:
            return None
        return action.strip()

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Judge an expression."""
        if self._said is not None:
            return 0.0, True, False
        self._said = action
        value, numbers = parse(action)
        if Counter(numbers) != Counter(self.puzzle.numbers):
            return 0.0, True, True
        self._is_solved = value == self.puzzle.target
        return self.config.score if self._is_solved else self.config.format_score, True, True

    def text(self) -> str:
        """The puzzle; afterwards, what was said, too."""
        puzzle: Puzzle = self.puzzle
        text = f"Target: {puzzle.target}, nums: {list(puzzle.numbers)}"
        return text if self._said is None else f"{text}\nYour answer: {self._said}"

    @property
    def success(self) -> bool:
        """Whether the target was made."""
        return self._is_solved

    def solve(self) -> list[Any] | None:
        """An expression that makes the target."""
        if self._said is not None:
            return [] if self._is_solved else None
        solution = solution_of(self.puzzle)
        return None if solution is None else [solution]
