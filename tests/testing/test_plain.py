"""Boiling results down to plain values, and saying why a value is not in a space."""

from __future__ import annotations

import dataclasses
import decimal
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from shoal.testing.plain import Thing, plain
from shoal.testing.script import blank
from shoal.testing.spaces import why_outside
from shoal.vector.sameness import difference
from tests.testing.bugs import Diary, Mood


class Weight(float):
    """A number of a class of its own."""


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any


class Slotted:
    __slots__ = ("inside",)

    def __repr__(self) -> str:
        return "Slotted!"


class Awkward:
    """Raises when it is looked at."""

    def __init__(self) -> None:
        self.public = 1

    def __getattribute__(self, name: str) -> Any:
        if name in ("public", "__array__"):
            raise RuntimeError("do not look")
        return super().__getattribute__(name)


VALUES = [
    1, 2.5, "text", None, np.float32(1), np.arange(3), {"a": [1, (2, 3)]}, Mood.GOOD, {3, 1, 2}, Diary("x"), Pair(1, [2]),
    decimal.Decimal("1.5"), Slotted(), Awkward(), len, Weight(3), {Mood.GOOD: 1}, np.array([None, {"a": 1}], dtype=object),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_boiling_down_twice_changes_nothing(value: Any) -> None:
    once = plain(value)
    assert difference(once, plain(once)) == ""
    assert difference(once, plain(value)) == ""


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Diary("x"), Diary("y")),
        (Pair(1, 2), Pair(1, 2.0)),
        (Mood.GOOD, Mood.BAD),
        (Weight(1), Weight(2)),
        (Weight(1), 1.0),
        ({1, 2}, {1, 3}),
        ({1, 2}, frozenset({1, 2})),
        (decimal.Decimal("1"), decimal.Decimal("1.0")),
        (np.array([Diary("x")]), np.array([Diary("y")])),
        ({Mood.GOOD: 1}, {Mood.BAD: 1}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_differs_still_differs(left: Any, right: Any) -> None:
    assert difference(plain(left), plain(right))


def test_not_a_number_inside_of_an_object_equals_itself() -> None:
    assert plain(Pair(float("nan"), np.zeros(2))) == plain(Pair(float("nan"), np.zeros(2)))
    assert hash(plain(Pair(1, 2))) == hash(plain(Pair(1, 2)))


def test_what_cannot_be_looked_into_is_known_by_its_class() -> None:
    assert plain(Awkward()) == Thing("tests.testing.test_plain.Awkward", None)
    assert repr(plain(Awkward())) == "tests.testing.test_plain.Awkward"
    assert plain(object()) == plain(object())


def test_results_share_nothing_with_what_they_were_made_of() -> None:
    array = np.zeros(2)
    boiled = plain({"a": [array]})
    array[0] = 1
    assert boiled["a"][0][0] == 0


def test_a_value_that_holds_itself_ends() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert "list" in repr(plain(endless))


@pytest.mark.parametrize(
    ("space", "value", "words"),
    [
        (spaces.Box(0, 1, (2,)), np.array([0, 1], np.float32), ""),
        (spaces.Box(0, 1, (2,)), np.array([0, np.nan], np.float32), "observation[1] is nan, outside 0.0 to 1.0"),
        (spaces.Box(0, 1, ()), np.float32(2), "observation is 2.0, outside 0.0 to 1.0"),
        (spaces.Box(0, 1, (2,)), "text", "observation has shape (), but its space has shape (2,)"),
        (spaces.Box(0, 1, (2,)), [[0], [0, 1]], "observation is [[0], [0, 1]], which is no array"),
        (
            spaces.Box(0, 9, (1,), np.int8),
            np.array([1.0]),
            "observation has dtype float64, but its space has dtype int8",
        ),
        (spaces.Discrete(3), 3, "observation is 3, which is not in Discrete(3)"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {}, "observation has no 'a', which its space has"),
        (spaces.Dict({}), {"b": 1}, "observation has 'b', which its space has not"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"a": 5}, "observation['a'] is 5, which is not in Discrete(2)"),
        (spaces.Tuple([spaces.Discrete(2)]), (2,), "observation[0] is 2, which is not in Discrete(2)"),
        (spaces.Tuple([spaces.Discrete(2)]), (), "observation is (), which is not in Tuple(Discrete(2))"),
        (spaces.Text(3), None, "observation is None, which is not in Text"),
    ],
    ids=str,
)
def test_why_a_value_is_not_in_a_space(space: spaces.Space[Any], value: Any, words: str) -> None:
    why = why_outside(space, value)
    assert why.startswith(words)
    assert bool(why) == bool(words)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(1, 2, (2,)),
        spaces.Box(-9, 9, (2,), np.int8),
        spaces.Discrete(3, start=2),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(3),
        spaces.Text(4),
        spaces.Dict({"a": spaces.Tuple([spaces.Discrete(2)])}),
    ],
    ids=str,
)
def test_a_blank_is_in_its_space(space: spaces.Space[Any]) -> None:
    assert space.contains(blank(space))
    assert difference(blank(space), blank(space)) == ""
