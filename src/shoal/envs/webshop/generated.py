"""A shop full of products that nobody sells: made of word lists, from a seed, and the same everywhere."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

from shoal.envs.webshop import words
from shoal.envs.webshop.records import Goal, Product

One = TypeVar("One")
_LETTERS = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"


class Dice:
    """Draws from lists. It asks nothing of Python's generator but numbers, which are the same in every version."""

    def __init__(self, *seeds: int) -> None:
        number = 0
        for seed in seeds:
            number = number << 64 | seed % 2**64
        self._random = random.Random(number)  # noqa: S311

    def number(self, limit: int) -> int:
        """A number from 0, less than this."""
        return int(self._random.random() * limit)

    def one(self, among: Sequence[One]) -> One:
        """One of these."""
        return among[self.number(len(among))]

    def some(self, among: Sequence[One], least: int, most: int) -> list[One]:
        """Some of these, each at most once."""
        left = list(among)
        count = min(least + self.number(most - least + 1), len(left))
        return [left.pop(self.number(len(left))) for _ in range(count)]


def products(count: int, seed: int) -> list[Product]:
    """So many products; each has a number of its own."""
    made: list[Product] = []
    known: set[str] = set()
    for number in range(count):
        product = _product(Dice(seed, number, 1))
        while product.asin in known:
            product = product._replace(asin=_asin(Dice(seed, number, len(known), 2)))
        known.add(product.asin)
        made.append(product)
    return made


def _asin(dice: Dice) -> str:
    return "B0" + "".join(dice.one(_LETTERS) for _ in range(8))


def _product(dice: Dice) -> Product:
    lists = words.lists()
    kind = dice.one(lists.kinds)
    brand = dice.one(lists.brand_beginnings) + dice.one(lists.brand_ends)
    attributes = dice.some(kind.attributes, 3, 5)
    noun, use = dice.one(kind.nouns), dice.one(kind.uses)
    model = f"{dice.one('ACEHKLMNPRSTVX')}{10 + dice.number(990)}"
    options = {name: dice.some(lists.options[name], 2, 6) for name in kind.options if dice.number(8)}
    price = kind.lowest + dice.number(kind.highest - kind.lowest) + dice.one((0.0, 0.49, 0.95, 0.99))
    titled = f"{brand} {' '.join(word.title() for word in attributes[:2])} {noun.title()} {use}, {model}"
    bullets = [
        dice.one(words.BULLETS).format(attribute=one, Attribute=one.capitalize(), noun=noun) for one in attributes
    ]
    bullets += [one.format(noun=noun, brand=brand) for one in dice.some(words.ASSURANCES, 1, 2)]
    description = " ".join(
        one.format(noun=noun, brand=brand, use=use, first=attributes[0], second=attributes[1], model=model)
        for one in (dice.one(words.OPENINGS), dice.one(kind.details), dice.one(words.MIDDLES), dice.one(words.CLOSINGS))
    )
    marks = [dice.one((5, 5, 4, 4, 3, 2, 1)) for _ in range(dice.number(4))]
    reviews = [_review(dice, mark, noun, dice.one(attributes)) for mark in marks]
    rating = f"{sum(marks) / len(marks):.1f}" if marks else "N.A."
    return Product(
        _asin(dice), titled, kind.query, kind.category, price, f"${price:.2f}", rating,
        bullets, description, reviews, attributes, options,
    )  # fmt: skip


def _review(dice: Dice, mark: int, noun: str, attribute: str) -> str:
    titles, bodies = words.PRAISE if mark >= 4 else words.DOUBTS if mark == 3 else words.COMPLAINTS
    body = " ".join(dice.some(bodies, 1, 2)).format(noun=noun, attribute=attribute)
    return f"{mark}.0 out of 5 stars - {dice.one(titles)} - {body}"


def goals(made: Sequence[Product], seed: int, per_product: int) -> list[Goal]:
    """So many wishes for each product, all of which it fulfils."""
    return [goal for number, product in enumerate(made) for goal in _goals(number, product, seed, per_product)]


def _goals(number: int, product: Product, seed: int, count: int) -> Iterator[Goal]:
    dice = Dice(seed, number, 3)
    for _ in range(count):
        attributes = dice.some(product.attributes, 1, 3)
        chosen = {name: dice.one(values) for name, values in product.options.items() if dice.number(5)}
        limit = 10.0 * (int(product.price / 10) + 1 + dice.number(4))
        wish = dice.one(words.WISHES).format(query=product.query, attributes=listed(attributes))
        with_options = f" with {listed([f'{name}: {value}' for name, value in chosen.items()])}," if chosen else ""
        yield Goal(
            number, f"{wish},{with_options} and price lower than {limit:.2f} dollars", attributes,
            list(chosen.values()), limit,
        )  # fmt: skip


def listed(parts: Sequence[str]) -> str:
    """These, with commas and an "and"."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
