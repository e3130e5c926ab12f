"""The pages of the shop: what stands on each, and what can be clicked there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from shoal.envs.webshop.records import Product

PER_PAGE: Final = 10
SEPARATOR: Final = " [SEP] "
BACK_TO_SEARCH, PREVIOUS, NEXT, BUY = "back to search", "< prev", "next >", "buy now"
ABOUT: Final = ("description", "features", "reviews")
"""Pages about a product, by the button that leads to them."""
BUTTONS: Final = frozenset((BACK_TO_SEARCH, PREVIOUS, NEXT, BUY, *ABOUT))
SEARCH, RESULTS, ITEM, DONE = "search", "results", "item", "done"


@dataclass
class Visit:
    """Where somebody is in the shop."""

    page: str = SEARCH
    """One of the names above, or of :data:`ABOUT`."""
    results: list[int] = field(default_factory=list)
    """The products that were found."""
    number: int = 0
    """The page of the results, from 0."""
    item: int = -1
    """The product that is looked at, or that was bought."""
    chosen: dict[str, str] = field(default_factory=dict)
    """The values of its options."""

    @property
    def shown(self) -> list[int]:
        """The products on this page of the results."""
        return self.results[self.number * PER_PAGE : (self.number + 1) * PER_PAGE]

    @property
    def is_last_page(self) -> bool:
        """Whether no page of results follows."""
        return (self.number + 1) * PER_PAGE >= len(self.results)


class Page(NamedTuple):
    """A page as it is seen."""

    strings: list[str]
    clickables: list[str]
    """What can be clicked, in lower case."""

    @property
    def text(self) -> str:
        """All that can be read."""
        return SEPARATOR.join(self.strings)


def search_page(instruction: str) -> Page:
    """The first page."""
    return Page(["WebShop", "Instruction:", instruction, "Search"], [])


def results_page(instruction: str, visit: Visit, products: Sequence[Product]) -> Page:
    """Ten of the products that were found."""
    strings = ["Instruction:", instruction, "Back to Search"]
    strings.append(f"Page {visit.number + 1} (Total results: {len(visit.results)})")
    clickables = [BACK_TO_SEARCH]
    if visit.number:
        strings.append("< Prev")
        clickables.append(PREVIOUS)
    if not visit.is_last_page:
        strings.append("Next >")
        clickables.append(NEXT)
    for product in products:
        strings += [product.asin, product.title, product.price_tag]
        clickables.append(product.asin.lower())
    return Page(strings, clickables)


def item_page(instruction: str, product: Product, chosen: Mapping[str, str]) -> Page:
    """A product. Behind what was chosen stands that it was."""
    strings = ["Instruction:", instruction, "Back to Search", "< Prev"]
    clickables = [BACK_TO_SEARCH, PREVIOUS, *ABOUT, BUY]
    for name, values in product.options.items():
        strings.append(name)
        for value in values:
            strings.append(f"{value} (selected)" if chosen.get(name) == value else value)
            if value not in clickables:
                clickables.append(value)
    strings += [product.title, f"Price: {product.price_tag}", f"Rating: {product.rating}"]
    strings += [*(name.capitalize() for name in ABOUT), "Buy Now"]
    return Page(strings, clickables)


def about_page(instruction: str, product: Product, name: str) -> Page:
    """What the seller says, or what customers say."""
    about = {"description": [product.description], "features": product.bullets, "reviews": product.reviews}[name]
    told = [text for text in about if text] or ["None"]
    return Page(["Instruction:", instruction, "Back to Search", "< Prev", *told], [BACK_TO_SEARCH, PREVIOUS])


def done_page(product: Product, chosen: Mapping[str, str], score: float) -> Page:
    """The last page."""
    options = ", ".join(f"{name}: {value}" for name, value in chosen.items()) or "None"
    strings = ["Thank you for shopping with us!", "Purchased", product.asin, product.title, "Options", options]
    return Page([*strings, "Your score (min 0.0, max 1.0)", f"{score:.4g}"], [])
