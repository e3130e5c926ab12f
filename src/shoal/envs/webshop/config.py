"""What can be chosen of a shop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shoal.vector.arguments import check_choice, check_count, check_seed
from shoal.vector.errors import ConfigurationError

SPLITS: Final = ("train", "val", "test")
NUM_MADE: Final = 2000
MOST_PRODUCTS: Final = 2_000_000
MOST_LATENCY: Final = 60.0


@dataclass(frozen=True)
class WebShopConfig:
    """What is sold, what is asked for, and how long one may look for it."""

    num_products: int | None = None
    """How many products are made (``None``: 2000), or how many of a file are read (``None``: all)."""
    catalogue_seed: int = 0
    """Decides which products are made, and what is asked for."""
    goals_per_product: int = 3
    """How many goals are made for each product that is made."""
    file_path: str | None = None
    """A JSON file with products in the official format; ``None`` for products that are made."""
    attr_path: str | None = None
    """The JSON file with their attributes, which belongs to it."""
    human_goals: str | None = None
    """The JSON file with what people have asked for; ``None`` for the instructions in ``attr_path``."""
    split: str | None = None
    """From which goals tasks are: ``"train"``, ``"val"`` or ``"test"``. ``None``: what ``reset`` is told, or else train."""
    max_steps: int = 9
    """Actions until an episode is truncated. What is no action is not counted."""
    latency: float = 0.0
    """Seconds that every action takes longer, as in a shop on the network. For benchmarks."""
    cache_dir: str | None = None
    """Where catalogues are kept once they are made; ``None`` for ``$SHOAL_CACHE``, or ``shoal`` among the user's caches."""
    render_mode: str = "text"
    """What ``render()`` returns."""

    def __post_init__(self) -> None:
        for name in ("goals_per_product", "max_steps"):
            check_count(name, getattr(self, name))
        if self.num_products is not None:
            check_count("num_products", self.num_products)
            if self.num_products > MOST_PRODUCTS:
                raise ConfigurationError(f"num_products must be at most {MOST_PRODUCTS}, got {self.num_products}")
        check_seed("catalogue_seed", self.catalogue_seed)
        if self.split is not None:
            check_choice("split", self.split, SPLITS)
        is_number = isinstance(self.latency, int | float) and not isinstance(self.latency, bool)
        if not is_number or not 0 <= self.latency <= MOST_LATENCY:
            raise ConfigurationError(
                f"latency must be a number of seconds from 0 to {MOST_LATENCY:g}, got {self.latency!r}"
            )
        if (self.file_path is None) != (self.attr_path is None):
            raise ConfigurationError(
                "file_path and attr_path belong together: give both for the official products, or neither"
            )
        if self.human_goals is not None and self.file_path is None:
            raise ConfigurationError("human_goals are goals of official products: give file_path and attr_path, too")
