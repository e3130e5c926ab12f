"""The official products, in the format in which WebShop's authors give them away: three JSON files.

They were written by sellers: nothing of them is taken as it is, and all of it is bounded.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from itertools import product as combinations
from pathlib import Path
from typing import Any

from shoal.envs.webshop.cleaning import LONGEST_TEXT, clean
from shoal.envs.webshop.config import WebShopConfig
from shoal.envs.webshop.pages import BUTTONS
from shoal.envs.webshop.records import Goal, Product
from shoal.vector.errors import ConfigurationError

LONGEST_ASIN, LONGEST_NAME, LONGEST_OPTION = 10, 300, 100
MOST_BULLETS, MOST_REVIEWS, MOST_ATTRIBUTES, MOST_OPTIONS, MOST_VALUES = 20, 10, 50, 10, 60
MOST_COMBINATIONS = 100
"""So many goals at most are made from the options of one product."""
NO_PRICE = 100.0
HIGHEST_PRICE = 1e6
LIMITS = [10.0 * step for step in range(1, 101)]
"""Highest prices that goals have."""
_PRICE = re.compile(r"\$\s*([\d,]{1,12}(?:\.\d{1,4})?)")


def read(config: WebShopConfig) -> tuple[list[Product], list[Goal]]:
    """The products of the files that a config names, and the goals."""
    raw = _loaded("file_path", config.file_path, list)
    attributes = _loaded("attr_path", config.attr_path, dict)
    people = None if config.human_goals is None else _loaded("human_goals", config.human_goals, dict)
    known: dict[str, Product] = {}
    for entry in raw:
        if config.num_products is not None and len(known) >= config.num_products:
            break
        if isinstance(entry, Mapping) and (made := _product(entry, attributes)) is not None:
            known.setdefault(made.asin, made)
    products = list(known.values())
    goals: list[Goal] = []
    for number, one in enumerate(products):
        if people is None:
            goals += _made_goals(number, one, attributes.get(one.asin))
        else:
            goals += _human_goals(number, one, people.get(one.asin))
    if not goals:
        raise ConfigurationError(
            f"none of the {len(raw)} products of {config.file_path} has a goal: "
            f"{config.human_goals or config.attr_path} must have entries with their numbers (asin)"
        )
    return products, goals


def _loaded(name: str, path: str | None, kind: type) -> Any:
    place = Path(str(path)).expanduser()
    try:
        value = json.loads(place.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{name}: {place} cannot be read as JSON: {error}") from error
    if not isinstance(value, kind):
        expected = "a list of products" if kind is list else "a mapping from numbers of products (asin)"
        raise ConfigurationError(f"{name}: {place} must have {expected}, got {type(value).__name__}")
    return value


def _product(entry: Mapping[str, Any], attributes: Mapping[str, Any]) -> Product | None:
    """A product; ``None`` for what has no number or no name."""
    asin, title = clean(entry.get("asin"), LONGEST_ASIN + 1).upper(), clean(entry.get("name"), LONGEST_NAME)
    if not asin.isalnum() or asin == "NAN" or len(asin) > LONGEST_ASIN or not title:
        return None
    price, tag = price_of(entry.get("pricing"))
    about = attributes.get(asin)
    return Product(
        asin=asin,
        title=title,
        query=clean(entry.get("query"), LONGEST_NAME).lower(),
        category=clean(entry.get("product_category"), LONGEST_NAME),
        price=price,
        price_tag=tag,
        rating=clean(entry.get("average_rating"), 10) or "N.A.",
        bullets=_texts(entry.get("small_description"), MOST_BULLETS, LONGEST_TEXT),
        description=clean(entry.get("full_description")),
        reviews=[_review(one) for one in _listed(entry.get("customer_reviews"))[:MOST_REVIEWS]],
        attributes=_texts(
            about.get("attributes") if isinstance(about, Mapping) else None, MOST_ATTRIBUTES, LONGEST_OPTION
        ),
        options=_options(entry.get("customization_options")),
    )


def _review(value: Any) -> str:
    parts = (value.get(name) for name in ("stars", "title", "body")) if isinstance(value, Mapping) else (value,)
    return " - ".join(filter(None, (clean(part) for part in parts)))


def price_of(text: Any) -> tuple[float, str]:
    """The price and what is shown of it. Of two, between which it may be, the middle is what is to be paid."""
    found = [float(one.replace(",", "") or 0) for one in islice(_PRICE.findall(str(text or "")), 2)]
    prices = [price for price in found if 0 < price <= HIGHEST_PRICE]
    if not prices:
        return NO_PRICE, f"${NO_PRICE}"
    return sum(prices) / len(prices), " to ".join(f"${price}" for price in prices)


def _options(value: Any) -> dict[str, list[str]]:
    """The values of each option. One that is clicked means one thing: not a button, and not two options."""
    options: dict[str, list[str]] = {}
    taken = set(BUTTONS)
    for name, contents in islice(value.items() if isinstance(value, Mapping) else (), MOST_OPTIONS):
        named = (one.get("value") if isinstance(one, Mapping) else one for one in _listed(contents)[:MOST_VALUES])
        values = [clean(one, LONGEST_OPTION).replace("/", " | ").lower() for one in named]
        option = clean(name, LONGEST_OPTION).lower()
        own = dict.fromkeys(f"{option} {one}" if one in taken else one for one in dict.fromkeys(values) if one)
        if own and option and option not in options and not taken & own.keys():
            options[option] = list(own)
            taken |= own.keys()
    return options


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _texts(value: Any, most: int, longest: int) -> list[str]:
    return list(filter(None, (clean(one, longest) for one in _listed(value)[:most])))


def _made_goals(number: int, product: Product, about: Any) -> Iterator[Goal]:
    """The instruction that belongs to a product, with each choice of its options."""
    if not isinstance(about, Mapping):
        return
    instruction = clean(about.get("instruction"), LONGEST_NAME).rstrip(".")
    attributes = _texts(about.get("instruction_attributes"), MOST_ATTRIBUTES, LONGEST_OPTION)
    if not instruction or not attributes:
        return
    limit, priced = _limit(product)
    for values in islice(combinations(*product.options.values()), MOST_COMBINATIONS):
        chosen = [f"{name}: {value}" for name, value in zip(product.options, values, strict=True)]
        with_options = f" with {', and '.join(chosen)}" if chosen else ""
        yield Goal(number, f"{instruction}{with_options}{priced}", attributes, list(values), limit)


def _human_goals(number: int, product: Product, wishes: Any) -> Iterator[Goal]:
    """What people have asked for."""
    for wish in _listed(wishes)[:MOST_COMBINATIONS]:
        if not isinstance(wish, Mapping):
            continue
        instruction = clean(wish.get("instruction"), LONGEST_TEXT).rstrip(".")
        attributes = _texts(wish.get("instruction_attributes"), MOST_ATTRIBUTES, LONGEST_OPTION)
        if instruction and attributes:
            options = _texts(wish.get("instruction_options"), MOST_OPTIONS, LONGEST_OPTION)
            limit, priced = _limit(product)
            yield Goal(number, f"{instruction}{priced}", attributes, options, limit)


def _limit(product: Product) -> tuple[float, str]:
    """The highest price of a goal, a step above the product's or a little more, and how it is said."""
    above = [limit for limit in LIMITS if limit > product.price][:2]
    return (above[-1], f", and price lower than {above[-1]:.2f} dollars") if above else (math.inf, "")
