"""What a purchase is worth: every term of the formula, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.envs.webshop import Goal, Product, Score, score_of
from shoal.envs.webshop.reward import longest_common, ratio, title_overlap, token_set_ratio, type_score

SHIRT = Product(
    asin="B000000001",
    title="Norwick Slim Fit Shirt for Men",
    query="men's shirts",
    category="Clothing \u203a Men \u203a Shirts",
    price=30.0,
    price_tag="$30.00",
    rating="N.A.",
    bullets=["Wrinkle resistant: hang it up and go"],
    description="A shirt with a button closure.",
    reviews=[],
    attributes=["machine washable"],
    options={"color": ["navy blue", "white"], "size": ["small", "large"]},
)


def goal(attributes: list[str], options: list[str], price_upper: float) -> Goal:
    return Goal(0, "", attributes, options, price_upper)


@pytest.mark.parametrize(
    ("attributes", "options", "price_upper", "chosen", "expected"),
    [
        (["machine washable"], ["white"], 40.0, ["white"], Score(1.0, 1, 1, True, 1.0)),
        (["machine washable"], ["white"], 30.0, ["white"], Score(1.0, 1, 1, True, 1.0)),
        (["machine washable"], ["white"], 29.99, ["white"], Score(1.0, 1, 1, False, 2 / 3)),
        (["machine washable"], ["white"], 40.0, ["navy blue"], Score(1.0, 1, 0, True, 2 / 3)),
        (["machine washable"], ["white"], 40.0, [], Score(1.0, 1, 0, True, 2 / 3)),
        (["organic"], ["white"], 40.0, ["white"], Score(1.0, 0, 1, True, 2 / 3)),
        (["organic"], ["white"], 20.0, ["navy blue"], Score(1.0, 0, 0, False, 0.0)),
        (["washable machine"], [], 40.0, [], Score(1.0, 1, 0, True, 1.0)),  # in any order
        (["slim fit"], [], 40.0, [], Score(1.0, 1, 0, True, 1.0)),  # in the title
        (["wrinkle resistant"], [], 40.0, [], Score(1.0, 1, 0, True, 1.0)),  # in a bullet
        (["Button Closure"], [], 40.0, [], Score(1.0, 1, 0, True, 1.0)),  # in the description
        (["slim fit", "organic", "machine washable"], [], 40.0, [], Score(1.0, 2, 0, True, 3 / 4)),
        ([], ["white", "large"], 40.0, ["large", "white"], Score(1.0, 0, 2, True, 1.0)),
        ([], ["white", "large"], 40.0, ["large", "navy blue"], Score(1.0, 0, 1, True, 2 / 3)),
        ([], ["navy"], 40.0, ["navy blue"], Score(1.0, 0, 1, True, 1.0)),
        ([], [], 40.0, ["white"], Score(1.0, 0, 0, True, 1.0)),
        ([], [], 1.0, [], Score(1.0, 0, 0, False, 0.0)),
    ],
)
def test_scores_by_hand(
    attributes: list[str], options: list[str], price_upper: float, chosen: list[str], expected: Score
) -> None:
    assert score_of(SHIRT, chosen, goal(attributes, options, price_upper), SHIRT) == expected


def other(title: str, query: str = "lamps", category: str = "Home") -> Product:
    return SHIRT._replace(title=title, query=query, category=category)


FAR = "aaa bbb ccc ddd eee fff ggg hhh iii jjj kkk"
"""Eleven words, of which a shared one is 1/11."""


@pytest.mark.parametrize(
    ("bought", "wanted", "expected"),
    [
        (SHIRT, SHIRT, 1.0),
        (other("Table Lamp"), SHIRT, 0.0),  # not a word in common
        (other("Table Lamp", SHIRT.query, SHIRT.category), SHIRT, 0.0),  # the title alone decides that
        (other("aaa"), other(FAR, "shirts", "Men"), 0.1),
        (other("aaa", "lamps", "Home"), other(FAR, "lamps", "Home"), 0.1),
        (other("aaa bbb"), other(FAR, "shirts", "Men"), 0.5),  # 2/11, and nothing else in common
        (other("aaa bbb"), other(FAR, "lamps", "Men"), 1.0),  # the query
        (other("aaa bbb", category="Home \u203a Light \u203a Lamps"), other(FAR, "x", "Home \u203a Light"), 1.0),
        (other("aaa bbb", category="Home \u203a Light"), other(FAR, "x", "Home \u203a Chairs"), 0.5),
        (other("aaa bbb ccc"), other(FAR, "shirts", "Men"), 1.0),  # 3/11 is more than a fifth
        (other("aaa"), other("aaa bbb ccc ddd eee", "x", "y"), 0.5),  # exactly a fifth
        (other("aaa"), other("for 12 a", "x", "y"), 0.5),  # a title that says nothing
    ],
)
def test_kinds_by_hand(bought: Product, wanted: Product, expected: float) -> None:
    assert type_score(bought, wanted) == expected
    assert score_of(bought, [], goal([], [], 100.0), wanted).total == expected


def test_the_kind_is_a_factor() -> None:
    bought = other("aaa bbb")
    assert score_of(bought, [], goal(["machine washable", "organic"], [], 40.0), other(FAR, "x", "y")) == Score(
        0.5, 1, 0, True, 0.5 * 2 / 3
    )


def test_numbers_and_small_words_of_titles_do_not_count() -> None:
    assert title_overlap("Lamp 40 for the Desk", "Chair 40 for the Desk") == 1 / 2
    assert title_overlap("", "") == 0.2


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("navy blue", "Blue, navy!", 100),
        ("blue", "navy blue", 100),
        ("white", "black", 0 + round(200 * 0 / 10)),
        ("", "blue", 0),
        ("!!", "??", 0),
        # No word in common; "coffee" is a subsequence of neither, "coffe" is of both: 2 * 5 / 11
        ("coffee", "coffe", 91),
        # "large" in common: "large" with "large size" is 2 * 5 / 15, "large fit" 2 * 5 / 14, and "large fit" with
        # "large size" have "large i" in common: 2 * 7 / 19
        ("large size", "fit large", 74),
        ("x-large", "large", 100),
        ("12 ounces", "16 ounces", round(200 * len("1 ounces") / 18)),
    ],
)
def test_likeness_by_hand(first: str, second: str, expected: int) -> None:
    assert token_set_ratio(first, second) == token_set_ratio(second, first) == expected


def slowly(first: str, second: str) -> int:
    """By the table that everybody knows."""
    row = [0] * (len(second) + 1)
    for one in first:
        before, row = row, [0]
        for place, two in enumerate(second):
            row.append(before[place] + 1 if one == two else max(before[place + 1], row[-1]))
    return row[-1]


@given(st.text("abc ", max_size=90), st.text("abcd", max_size=90))
def test_the_longest_common_subsequence_is_that_of_the_table(first: str, second: str) -> None:
    assert longest_common(first, second) == slowly(first, second)


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_likeness_is_a_percentage(first: str, second: str) -> None:
    for value in (ratio(first, second), token_set_ratio(first, second)):
        assert 0 <= value <= 100
    assert token_set_ratio(first, second) == token_set_ratio(second, first)


@given(st.data())
def test_a_score_is_from_0_to_1(data: Any) -> None:
    words = st.lists(st.sampled_from(["slim fit", "organic", "white", "large", "shirt"]), max_size=3)
    wish = goal(data.draw(words), data.draw(words), data.draw(st.floats(0, 100)))
    score = score_of(SHIRT, data.draw(words), wish, SHIRT)
    assert 0.0 <= score.total <= 1.0
    assert score.attributes <= len(wish.attributes)
    assert score.options <= len(wish.options)
