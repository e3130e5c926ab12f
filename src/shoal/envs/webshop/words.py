"""Of what products are made. The lists of words are in ``words.json``; the sentences are here."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A kind of thing that the shop sells."""

    query: str
    nouns: list[str]
    category: str
    """A department, a group and a shelf at least, so that things of one group share two of them."""
    attributes: list[str]
    options: list[str]
    """Names of options. No two of them have a value in common."""
    uses: list[str]
    details: list[str]
    """Sentences about it."""
    lowest: int
    """Of its prices, in dollars."""
    highest: int


@dataclass(frozen=True)
class Words:
    """The lists."""

    kinds: list[Kind]
    options: dict[str, list[str]]
    """The values of each option."""
    brand_beginnings: list[str]
    brand_ends: list[str]


@functools.cache
def lists() -> Words:
    """Read them."""
    found: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    kinds = [{**kind, "attributes": found["attributes"][kind["attributes"]]} for kind in found["kinds"]]
    split = ("nouns", "attributes", "options", "uses", "details")
    return Words(
        [
            Kind(**{name: value.split("|") if name in split else value for name, value in kind.items()})
            for kind in kinds
        ],
        {name: values.split("|") for name, values in found["options"].items()},
        found["brand_beginnings"].split("|"),
        found["brand_ends"].split("|"),
    )


BULLETS = (
    "{Attribute}: you notice it the first time you use the {noun}.",
    "{Attribute} by design, and tested before it leaves the workshop.",
    "This {noun} is {attribute}, so it fits into everyday life.",
    "Customers choose this {noun} because it is {attribute}.",
    "{Attribute} - a detail that others leave out.",
)
ASSURANCES = (
    "Thirty days to return the {noun}, no questions asked.",
    "{brand} answers every message within a day.",
    "Packed in recycled cardboard, without plastic.",
    "A gift that is welcome on birthdays and holidays.",
    "Sizes and colors may look different on your screen.",
)
OPENINGS = (
    "Meet the {brand} {noun} {model}, made {use}.",
    "{brand} has been making things {use} for years, and the {noun} {model} is the result.",
    "If you have looked for a {first} {noun}, your search ends here.",
)
MIDDLES = (
    "It is {first} and {second}, and it looks good, too.",
    "We wanted it {first}; our customers asked for {second}. Now it is both.",
    "What sets it apart: {first}, {second}, and an honest price.",
)
CLOSINGS = (
    "Please compare the measurements before you order.",
    "Write to us if anything is missing from your parcel.",
    "Order today, and it leaves our warehouse tomorrow.",
)
PRAISE = (
    ("Exactly what I wanted", "Love it", "Great value", "Would buy again", "Better than expected"),
    (
        "I have used this {noun} for a month and it still looks new.",
        "Really is {attribute}, as described.",
        "My sister ordered one as well after she saw mine.",
        "Arrived two days early and well packed.",
    ),
)
DOUBTS = (
    ("It is okay", "Mixed feelings", "Does the job"),
    (
        "The {noun} is fine, but the color is darker than in the picture.",
        "They say {attribute}, and I would say nearly.",
        "Good enough for the price, nothing more.",
    ),
)
COMPLAINTS = (
    ("Disappointed", "Sent it back", "Not for me"),
    (
        "The {noun} broke after a week.",
        "I doubt that it is {attribute} at all.",
        "It took three weeks to arrive, and the box was open.",
        "Support answered politely but could not help.",
    ),
)
WISHES = (
    "I am looking for {query} that are described as {attributes}",
    "Find me {query}: {attributes}",
    "I need {query}, and it matters to me that they are {attributes}",
    "Please get {query} for my sister, {attributes}",
)
