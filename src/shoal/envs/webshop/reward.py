"""What a purchase is worth, by the official formula.

::

    r_type * (attributes that match + options that match + [price <= highest price]) / (attributes + options + 1)

An attribute or option matches if its words are those of one of the product's, nearly (:func:`token_set_ratio` above 85), or,
for an attribute, if it stands in the title, the bullets or the description. ``r_type`` is 1 for the right kind of thing. It is
a half if query, category and title all say otherwise, a tenth if the titles have hardly a word in common, and 0 if none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shoal.envs.webshop.records import BETWEEN_DEPARTMENTS, Goal, Product
from shoal.envs.webshop.stop_words import STOP_WORDS

MATCHING = 85
SHARED_DEPARTMENTS = 2
ENOUGH_OF_TITLE, LITTLE_OF_TITLE = 0.2, 0.1
_WORD = re.compile(r"[^\W_]+")


class Score(NamedTuple):
    """A purchase, judged."""

    type: float
    attributes: int
    """How many match."""
    options: int
    price: bool
    total: float


def score_of(bought: Product, chosen: Sequence[str], goal: Goal, wanted: Product) -> Score:
    """The score of a product with these options, where the goal's product is ``wanted``."""
    kind = type_score(bought, wanted)
    attributes = sum(has_attribute(bought, attribute) for attribute in goal.attributes)
    options = sum(matches(option, chosen) for option in goal.options)
    is_cheap = bought.price <= goal.price_upper
    share = (attributes + options + is_cheap) / (len(goal.attributes) + len(goal.options) + 1)
    return Score(kind, attributes, options, is_cheap, kind * share)


def type_score(bought: Product, wanted: Product) -> float:
    """Whether it is the kind of thing that is wanted."""
    overlap = title_overlap(bought.title, wanted.title)
    if overlap == 0.0:
        return 0.0
    if overlap < LITTLE_OF_TITLE:
        return 0.1
    is_asked_for = bought.query == wanted.query
    shared = _departments(bought) & _departments(wanted)
    return 1.0 if is_asked_for or len(shared) >= SHARED_DEPARTMENTS or overlap > ENOUGH_OF_TITLE else 0.5


def _departments(product: Product) -> set[str]:
    return {part.strip() for part in product.category.split(BETWEEN_DEPARTMENTS)}


def title_overlap(bought: str, wanted: str) -> float:
    """Which part of the words of the wanted title that mean something is in the other."""
    looked_for = _meaningful(wanted)
    return len(looked_for & _meaningful(bought)) / len(looked_for) if looked_for else ENOUGH_OF_TITLE


def _meaningful(title: str) -> set[str]:
    return {word for word in _WORD.findall(title.lower()) if word.isalpha() and len(word) > 1} - STOP_WORDS


def has_attribute(product: Product, attribute: str) -> bool:
    """Whether a product is like this."""
    if matches(attribute, product.attributes):
        return True
    text = attribute.lower()
    return any(text in part.lower() for part in (product.title, " ".join(product.bullets), product.description))


def matches(wanted: str, given: Iterable[str]) -> bool:
    """Whether one of these is what is wanted, nearly."""
    return any(token_set_ratio(one, wanted) > MATCHING for one in given)


def token_set_ratio(first: str, second: str) -> int:
    """How alike the words of two texts are, whatever their order, in percent.

    Three texts are made: the words that both have, and these with what the first has besides, and with what the second has.
    The two most alike count.
    """
    one, two = set(_WORD.findall(first.lower())), set(_WORD.findall(second.lower()))
    if not one or not two:
        return 0
    shared = " ".join(sorted(one & two))
    if shared and (one <= two or two <= one):
        return 100
    whole_one, whole_two = (f"{shared} {' '.join(sorted(rest))}".strip() for rest in (one - two, two - one))
    return max(ratio(shared, whole_one), ratio(shared, whole_two), ratio(whole_one, whole_two))


def ratio(first: str, second: str) -> int:
    """Twice the length of the longest common subsequence, in percent of both lengths, rounded."""
    if not first or not second:
        return 0
    return round(200 * longest_common(first, second) / (len(first) + len(second)))


def longest_common(first: str, second: str) -> int:
    """The length of the longest common subsequence: a row of its table is the bits of one number."""
    places: dict[str, int] = {}
    for place, character in enumerate(first):
        places[character] = places.get(character, 0) | 1 << place
    everywhere = (1 << len(first)) - 1
    unmatched = everywhere
    for character in second:
        found = unmatched & places.get(character, 0)
        unmatched = (unmatched + found | unmatched - found) & everywhere
    return len(first) - unmatched.bit_count()
