"""Arithmetic that a model wrote, read by a parser of its own: nothing is executed, and everything is bounded.

::

    sum     = product { (+|-) product }
    product = factor { (*|/) factor }
    factor  = { + | - } ( digits | "(" sum ")" )

Values are exact fractions. There are no powers, so a value has about as many digits as the text at most.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

MOST_CHARACTERS = 256
MOST_DIGITS = 6
"""Of one number."""
DEEPEST = 32
"""So many brackets and signs may be open at the same place."""

_DIGITS = frozenset("0123456789")
_BLANKS = frozenset(" \t\r\n")


class NotArithmetic(ValueError):
    """A text that is no arithmetic, or too long, or too deep."""


class Arithmetic(NamedTuple):
    """What an expression comes to, and the numbers that stand in it, in their order."""

    value: Fraction | None
    """``None`` where it divides by zero."""
    numbers: tuple[int, ...]


def parse(text: str) -> Arithmetic:
    """Read an expression; raises :class:`NotArithmetic`."""
    if len(text) > MOST_CHARACTERS:
        raise NotArithmetic(f"it has {len(text)} characters, and may have {MOST_CHARACTERS}")
    reader = _Reader(text)
    value = reader.sum(0)
    if reader.next():
        raise NotArithmetic(f"{reader.next()!r} at character {reader.place + 1} does not belong there")
    return Arithmetic(value, tuple(reader.numbers))


def applied(operation: str, left: Fraction | None, right: Fraction | None) -> Fraction | None:
    """What ``+``, ``-``, ``*`` or ``/`` makes of two values; ``None`` where either of them, or the result, is none."""
    if left is None or right is None:
        return None
    if operation == "+":
        return left + right
    if operation == "-":
        return left - right
    if operation == "*":
        return left * right
    return left / right if right else None


class _Reader:
    """Reads from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self.place = text, 0
        self.numbers: list[int] = []

    def next(self) -> str:
        """The next character that is no blank; empty at the end."""
        text, end = self._text, len(self._text)
        while self.place < end and text[self.place] in _BLANKS:
            self.place += 1
        return text[self.place] if self.place < end else ""

    def sum(self, depth: int) -> Fraction | None:
        total = self._product(depth)
        while (sign := self.next()) in ("+", "-"):
            self.place += 1
            total = applied(sign, total, self._product(depth))
        return total

    def _product(self, depth: int) -> Fraction | None:
        total = self._factor(depth)
        while (sign := self.next()) in ("*", "/"):
            self.place += 1
            total = applied(sign, total, self._factor(depth))
        return total

    def _factor(self, depth: int) -> Fraction | None:
        is_negative = False
        while (sign := self.next()) in ("+", "-"):
            self.place += 1
            depth += 1
            is_negative ^= sign == "-"
            _check_depth(depth)
        if sign != "(":
            value: Fraction | None = self._number()
        else:
            self.place += 1
            _check_depth(depth + 1)
            value = self.sum(depth + 1)
            if self.next() != ")":
                raise NotArithmetic("a bracket is not closed")
            self.place += 1
        return -value if is_negative and value is not None else value

    def _number(self) -> Fraction:
        begin, text = self.place, self._text
        while self.place < len(text) and text[self.place] in _DIGITS:
            self.place += 1
        digits = text[begin : self.place]
        if not digits:
            what = repr(text[begin]) if begin < len(text) else "the end"
            raise NotArithmetic(f"a number is missing before {what}")
        if len(digits) > MOST_DIGITS:
            raise NotArithmetic(f"a number has {len(digits)} digits, and may have {MOST_DIGITS}")
        self.numbers.append(int(digits))
        return Fraction(int(digits))


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise NotArithmetic(f"more than {DEEPEST} brackets and signs are open at the same place")
