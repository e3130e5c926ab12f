"""What is sold, and what is asked for."""

from __future__ import annotations

from typing import NamedTuple

BETWEEN_DEPARTMENTS = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


class Product(NamedTuple):
    """Something that is sold. All texts in it are clean."""

    asin: str
    """Its number in the shop, in upper case."""
    title: str
    query: str
    """What one who looks for such a thing would search for."""
    category: str
    """Its path in the departments, with :data:`BETWEEN_DEPARTMENTS` between them."""
    price: float
    price_tag: str
    rating: str
    bullets: list[str]
    description: str
    reviews: list[str]
    attributes: list[str]
    options: dict[str, list[str]]
    """What can be chosen: the values of each option."""


class Goal(NamedTuple):
    """What somebody wants."""

    product: int
    """The number of a product that is right."""
    instruction: str
    attributes: list[str]
    options: list[str]
    """The values that are to be chosen."""
    price_upper: float
    """It may cost so much at most."""
