"""Puzzles for Countdown: making them, solving them, reading them from a file."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from shoal.envs.texts.arithmetic import MOST_DIGITS, applied
from shoal.envs.texts.noise import task_generator
from shoal.vector.errors import ConfigurationError

MOST_NUMBERS = 6
"""A puzzle with more of them takes too long to solve."""
MOST_TRIES = 5_000
NUM_KEPT = 1024


class Puzzle(NamedTuple):
    """Make the target from these numbers, each of which must be used once."""

    target: int
    numbers: tuple[int, ...]


@functools.lru_cache(NUM_KEPT)
def made_puzzle(
    task_seed: int, num_numbers: tuple[int, int], largest_number: int, largest_target: int, operations: str
) -> Puzzle:
    """A puzzle that can be solved with these operations: its target is what some expression of its numbers comes to.

    It is kept for the other members of a group.
    """
    random = task_generator(task_seed)
    count = int(random.integers(num_numbers[0], num_numbers[1] + 1))
    for _ in range(MOST_TRIES):
        numbers = tuple((1 + random.integers(largest_number, size=count)).tolist())
        value = _combined(random, numbers, operations)
        if value is not None and value.denominator == 1 and 1 <= value <= largest_target:
            return Puzzle(int(value), numbers)
    raise ConfigurationError(
        f"no puzzle of {count} numbers up to {largest_number} with a target up to {largest_target} was found in "
        f"{MOST_TRIES} tries: allow larger targets, or fewer or smaller numbers"
    )


def _combined(random: np.random.Generator, numbers: Sequence[int], operations: str) -> Fraction | None:
    """What some expression of all these numbers comes to."""
    values = [Fraction(number) for number in numbers]
    while len(values) > 1:
        left, right = (values.pop(int(random.integers(len(values)))) for _ in range(2))
        result = applied(operations[int(random.integers(len(operations)))], left, right)
        if result is None:
            return None
        values.append(result)
    return values[0]


def solution_of(puzzle: Puzzle) -> str | None:
    """An expression that solves it, if there is one. One of plus and minus alone is preferred."""
    if len(puzzle.numbers) > MOST_NUMBERS:
        raise ConfigurationError(f"a puzzle may have {MOST_NUMBERS} numbers to be solved, got {len(puzzle.numbers)}")
    signs = signs_for(puzzle)
    if signs is not None:
        # Those that are added come first, and one at least there is.
        terms = sorted(zip(signs, puzzle.numbers, strict=True), reverse=True)
        text = "".join(f" {'+' if sign > 0 else '-'} {number}" for sign, number in terms)
        return text.removeprefix(" + ")
    return _search(tuple((Fraction(number), str(number)) for number in puzzle.numbers), puzzle.target, set())


def signs_for(puzzle: Puzzle) -> tuple[int, ...] | None:
    """A plus or minus for every number, so that they come to the target, which is positive."""
    for signs in itertools.product((1, -1), repeat=len(puzzle.numbers)):
        if sum(sign * number for sign, number in zip(signs, puzzle.numbers, strict=True)) == puzzle.target:
            return signs
    return None


def _search(terms: tuple[tuple[Fraction, str], ...], target: int, seen: set[tuple[Fraction, ...]]) -> str | None:
    """Replace two terms by what one operation makes of them, in every way, until one is left."""
    if len(terms) == 1:
        return terms[0][1] if terms[0][0] == target else None
    values = tuple(sorted(value for value, _ in terms))
    if values in seen:
        return None
    seen.add(values)
    for first, second in itertools.permutations(range(len(terms)), 2):
        (left, left_text), (right, right_text) = terms[first], terms[second]
        rest = tuple(term for place, term in enumerate(terms) if place not in (first, second))
        for operation in "+-*/":
            if first > second and operation in "+*":
                continue  # the order does not matter
            value = applied(operation, left, right)
            if value is None:
                continue
            found = _search((*rest, (value, f"({left_text} {operation} {right_text})")), target, seen)
            if found is not None:
                return found
    return None


def puzzles_from(path: str, most: int) -> tuple[Puzzle, ...]:
    """The puzzles of a Parquet file with the columns ``target`` and ``nums``, of its first rows.

    Rows that plus and minus alone do not solve are left out.
    """
    path = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(path):
        raise ConfigurationError(
            f"train_path: there is no file {path}. Leave train_path out for puzzles that are made, not read"
        )
    return _read(path, most, os.stat(path).st_mtime_ns)


@functools.lru_cache(4)
def _read(path: str, most: int, _modified: int) -> tuple[Puzzle, ...]:
    """Read once for all environments of a process."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise ConfigurationError(
            f"train_path={path!r}: Parquet files are read by pyarrow, which is not installed: pip install 'shoal[llm]'"
        ) from None
    try:
        file = parquet.ParquetFile(path)
        missing = [name for name in ("target", "nums") if name not in file.schema_arrow.names]
        if missing:
            raise ConfigurationError(
                f"train_path: {path} has no column {' and no column '.join(map(repr, missing))}; it has "
                f"{', '.join(file.schema_arrow.names)}"
            )
        rows: list[dict[str, Any]] = []
        for batch in file.iter_batches(batch_size=4096, columns=["target", "nums"], use_threads=False):
            rows += batch.slice(0, most - len(rows)).to_pylist()
            if len(rows) >= most:
                break
    except (arrow.ArrowException, OSError) as error:
        raise ConfigurationError(f"train_path: {path} cannot be read as a Parquet file: {error}") from error
    puzzles = [Puzzle(row["target"], tuple(row["nums"])) for row in rows if is_puzzle(row["target"], row["nums"])]
    solvable = tuple(puzzle for puzzle in puzzles if signs_for(puzzle) is not None)
    if not solvable:
        raise ConfigurationError(
            f"train_path: none of the first {len(rows)} rows of {path} is a puzzle that plus and minus solve"
        )
    return solvable


def is_puzzle(target: Any, numbers: Sequence[Any] | None) -> bool:
    """Whether these are a target and numbers, whole and positive, and not too many."""
    return (
        type(target) is int
        and target > 0
        and isinstance(numbers, list)
        and 0 < len(numbers) <= MOST_NUMBERS
        and all(type(number) is int and 0 <= number < 10**MOST_DIGITS for number in numbers)
    )
