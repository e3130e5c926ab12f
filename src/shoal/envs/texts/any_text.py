"""A space of texts, whatever their characters."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

LONGEST_SAMPLE = 40


class AnyText(spaces.Text):
    """Every text. A ``Text`` of Gymnasium has a set of characters, and what models and worlds write has none."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(LONGEST_SAMPLE, min_length=0, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether it is a text."""
        return isinstance(x, str)

    @property
    def is_np_flattenable(self) -> bool:
        """Never: there is no longest text."""
        return False

    def __repr__(self) -> str:
        return "AnyText()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText)

    __hash__ = object.__hash__
