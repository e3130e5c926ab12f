"""Word problems that are made from a seed, in the form of MetaMathQA's rows, so that nothing has to be downloaded.

Each template has a text and an expression. The answer is what the expression comes to, exactly, so that it is right whenever
the expression says what the text tells; numbers are drawn again until the answer is a whole number above zero.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from shoal.envs.texts.arithmetic import parse
from shoal.envs.texts.noise import task_generator

NUM_KEPT = 1024
MOST_TRIES = 10_000
ANSWER_MARK = "The answer is: "

NAMES = ("Ada", "Bruno", "Chidi", "Dana", "Emre", "Farah", "Goran", "Hana", "Ines", "Jun", "Kofi", "Lena")
THINGS = ("marbles", "stamps", "pears", "shells", "pencils", "buttons", "postcards", "walnuts", "stickers", "coins")
PLACES = ("bakery", "library", "harbour", "school", "market", "workshop", "museum", "garden")


class Problem(NamedTuple):
    """A row: what is asked, and a solution that ends with the answer."""

    query: str
    response: str


class Template(NamedTuple):
    """A kind of problem. Numbers are called a, b, c, d and drawn from these ranges, both ends included."""

    text: str
    expression: str
    ranges: tuple[tuple[int, int], ...]


TEMPLATES = (
    Template(
        "{name} has {a} {things}. {other} gives {name} {b} more, and then {name} loses {c}. "
        "How many {things} does {name} have now?",
        "{a} + {b} - {c}",
        ((5, 60), (2, 40), (1, 30)),
    ),
    Template(
        "A box at the {place} holds {a} {things}. There are {b} full boxes, and {c} {things} lie beside them. "
        "How many {things} are there altogether?",
        "{a} * {b} + {c}",
        ((4, 24), (3, 15), (2, 20)),
    ),
    Template(
        "{name} shares {a} {things} equally among {b} friends and keeps none. Each friend already had {c}. "
        "How many {things} does each friend have afterwards?",
        "{a} / {b} + {c}",
        ((20, 150), (2, 9), (1, 25)),
    ),
    Template(
        "A ticket to the {place} costs {a} dollars for an adult and {b} dollars for a child. "
        "{c} adults and {d} children go there together. How many dollars do they pay?",
        "{a} * {c} + {b} * {d}",
        ((8, 25), (2, 7), (2, 6), (2, 9)),
    ),
    Template(
        "{name} walks {a} kilometres every day for {b} days, and {other} walks {c} kilometres every day for {d} days. "
        "How many kilometres more does {name} walk than {other}?",
        "{a} * {b} - {c} * {d}",
        ((3, 15), (3, 12), (2, 9), (2, 9)),
    ),
    Template(
        "A coat costs {a} dollars. Its price is lowered by {b} percent, and {name} has a voucher for another {c} dollars. "
        "How many dollars does {name} pay?",
        "{a} - {a} * {b} / 100 - {c}",
        ((40, 240), (5, 60), (2, 15)),
    ),
    Template(
        "A train leaves at a steady {a} kilometres per hour and travels for {b} hours. After a stop it goes on at {c} "
        "kilometres per hour for {d} hours. How many kilometres has it travelled?",
        "{a} * {b} + {c} * {d}",
        ((40, 120), (2, 6), (30, 110), (2, 5)),
    ),
    Template(
        "The {place} is open {a} hours a day. In each hour {b} visitors come, and every visitor buys {c} {things}. "
        "How many {things} are bought in a day?",
        "{a} * {b} * {c}",
        ((4, 12), (5, 30), (2, 6)),
    ),
    Template(
        "{name} reads {a} pages of a book on Monday and twice as many on Tuesday. The book has {b} pages. "
        "How many pages are left?",
        "{b} - {a} - 2 * {a}",
        ((10, 60), (80, 400)),
    ),
    Template(
        "The mean of three numbers is {a}. Two of them are {b} and {c}. What is the third?",
        "3 * {a} - {b} - {c}",
        ((5, 60), (1, 60), (1, 60)),
    ),
    Template(
        "A rectangular bed in the garden is {a} metres long and {b} metres wide. {name} puts a fence around it and leaves a "
        "gate of {c} metres open. How many metres of fence are needed?",
        "2 * ({a} + {b}) - {c}",
        ((4, 40), (2, 30), (2, 3)),
    ),
    Template(
        "Together {name} and {other} have {a} {things}. {name} has {b} more than {other}. "
        "How many {things} does {other} have?",
        "({a} - {b}) / 2",
        ((10, 120), (2, 60)),
    ),
    Template(
        "{b} workers need {c} days for a wall. If everybody works equally fast, how many days do {a} workers need for it?",
        "{b} * {c} / {a}",
        ((2, 12), (3, 12), (2, 20)),
    ),
    Template(
        "A tank holds {a} litres and is full. {b} litres run out every minute, and {c} litres run in. "
        "After how many minutes is it empty?",
        "{a} / ({b} - {c})",
        ((60, 600), (7, 30), (2, 5)),
    ),
)


@functools.lru_cache(NUM_KEPT)
def made_problem(task_seed: int, split: str) -> Problem:
    """The problem of this seed. Splits are other problems. It is kept for the other members of a group."""
    random = task_generator(task_seed)
    random = np.random.default_rng([*split.encode(), int(random.integers(2**62))])
    template = TEMPLATES[int(random.integers(len(TEMPLATES)))]
    name, other = (NAMES[int(number)] for number in random.choice(len(NAMES), 2, replace=False))
    words = {
        "name": name,
        "other": other,
        "things": THINGS[int(random.integers(len(THINGS)))],
        "place": PLACES[int(random.integers(len(PLACES)))],
    }
    for _ in range(MOST_TRIES):
        drawn = [int(random.integers(low, high + 1)) for low, high in template.ranges]
        numbers = dict(zip("abcd", drawn, strict=False))
        expression = template.expression.format(**numbers)
        value = parse(expression).value
        if value is not None and value > 0 and value.denominator == 1:
            response = f"This comes to {expression} = {value}. {ANSWER_MARK}{value}"
            return Problem(template.text.format(**words, **numbers), response)
    raise AssertionError(f"no numbers fit {template.text!r}")  # every template is tested
