"""Arithmetic is read exactly, and nothing else is read at all."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.envs.texts.arithmetic import DEEPEST, MOST_CHARACTERS, NotArithmetic, parse

HOSTILE = [
    "__import__('os').system('true')",
    "9**9**9**9**9",
    "9^9^9",
    "2 << 99999",
    "(" * 10**6,
    "(" * 100 + "1" + ")" * 100,
    "-" * 200 + "1",
    "9" * 200,
    "٣ + ٤",
    "１ + ２",
    "2² + 1",
    "1 × 2",
    "1 − 2",
    "1e9",
    "1_000",
    "0x10",
    "1.5",
    "1,5",
    "1 = 1",
    "lambda: 1",
    "[1]",
    "1 if 1 else 2",
    "1\0+2",
    "1\u00a0+ 2",
    "1\u200b+2",
    "\ud800",
    "",
    "   ",
    "()",
    "1 2",
    "1 +",
    "* 1",
    "1 // 2",
    "1 % 2",
    "(1))",
    "((1)",
    "1 + 2;",
    "1" + " + 1" * 10**5,
]


@pytest.mark.parametrize(
    ("text", "value", "numbers"),
    [
        ("7", Fraction(7), (7,)),
        ("1 + 2*3", Fraction(7), (1, 2, 3)),
        ("(1+2)*3", Fraction(9), (1, 2, 3)),
        ("10 - 4 - 3", Fraction(3), (10, 4, 3)),
        ("24 / 4 / 3", Fraction(2), (24, 4, 3)),
        ("8 / (3 - 8 / 3)", Fraction(24), (8, 3, 8, 3)),
        ("1/3 + 1/6", Fraction(1, 2), (1, 3, 1, 6)),
        ("-5 + 12", Fraction(7), (5, 12)),
        ("3 * -(2 - 4)", Fraction(6), (3, 2, 4)),
        ("- - + 4", Fraction(4), (4,)),
        ("\t(1 +\n2)\r\n", Fraction(3), (1, 2)),
        ("1 / 0", None, (1, 0)),
        ("5 + 1 / (2 - 2) * 0", None, (5, 1, 2, 2, 0)),
        ("-(1 / 0)", None, (1, 0)),
        ("007", Fraction(7), (7,)),
    ],
)
def test_arithmetic_comes_to(text: str, value: Fraction | None, numbers: tuple[int, ...]) -> None:
    assert parse(text) == (value, numbers)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_what_is_no_arithmetic_is_refused_at_once(text: str) -> None:
    begin = time.thread_time()
    with pytest.raises(NotArithmetic):
        parse(text)
    assert time.thread_time() - begin < 0.01


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1" * 257, "it has 257 characters, and may have 256"),
        ("1 + 1234567", "a number has 7 digits, and may have 6"),
        ("1 + x", "a number is missing before 'x'"),
        ("1 +", "a number is missing before the end"),
        ("(1 + 2", "a bracket is not closed"),
        ("1 ** 2", r"a number is missing before '\*'"),
        ("1 + 2 = 3", "'=' at character 7 does not belong there"),
        ("-" * 40 + "1", "more than 32 brackets and signs are open at the same place"),
    ],
)
def test_why_it_is_none(text: str, message: str) -> None:
    with pytest.raises(NotArithmetic, match=message):
        parse(text)


Tree = tuple[str, Fraction | None, tuple[int, ...]]


def combined(parts: tuple[Tree, str, Tree]) -> Tree:
    (left_text, left, left_numbers), operation, (right_text, right, right_numbers) = parts
    value = None
    if left is not None and right is not None and not (operation == "/" and right == 0):
        value = {"+": left + right, "-": left - right, "*": left * right}.get(operation)
        value = left / right if value is None else value
    return f"({left_text} {operation}{right_text})", value, left_numbers + right_numbers


TREES = st.recursive(
    st.integers(0, 999_999).map(lambda number: (str(number), Fraction(number), (number,))),
    lambda trees: st.tuples(trees, st.sampled_from("+-*/"), trees).map(combined),
    max_leaves=12,
)


@given(TREES)
def test_any_expression_has_its_value_and_its_numbers(tree: Tree) -> None:
    text, value, numbers = tree
    assert parse(text) == (value, numbers)


@given(st.text(alphabet="0123456789+-*/() ", max_size=MOST_CHARACTERS + 10))
def test_whatever_looks_like_arithmetic_takes_no_time(text: str) -> None:
    begin = time.thread_time()
    try:
        parse(text)
    except NotArithmetic:
        pass
    assert time.thread_time() - begin < 0.01


@pytest.mark.parametrize(
    "text",
    [
        "+".join(["1/999999"] * 28),
        "/".join(f"(1/{999_983 - 2 * number}+1)" for number in range(18)),
        "*".join(["999999"] * 36),
        "(" * DEEPEST + "1" + ")" * DEEPEST,
    ],
)
def test_the_dearest_arithmetic_there_can_be_takes_no_time(text: str) -> None:
    assert len(text) <= MOST_CHARACTERS
    begin = time.thread_time()
    assert parse(text).numbers
    assert time.thread_time() - begin < 0.01
