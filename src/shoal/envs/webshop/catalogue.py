"""What a shop sells, and what its customers want. One for all environments of a process, and mapped from the same files."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from shoal.envs.webshop import generated, official, storing
from shoal.envs.webshop.config import NUM_MADE, WebShopConfig
from shoal.envs.webshop.index import Index, write_index
from shoal.envs.webshop.records import Goal, Product
from shoal.vector.errors import ConfigurationError

ORDER_OF_GOALS = 42
NUM_TEST, NUM_VAL = 500, 1000
"""How many goals are for tests and for validation, where there are more than both together."""


class Catalogue:
    """Products by number, goals by task, and search."""

    def __init__(self, config: WebShopConfig, folder: Path) -> None:
        self._config = config
        self._products, self._goals = (storing.Records(folder / name) for name in ("products.json", "goals.json"))
        self._index = Index(folder, len(self._products))
        self._order = np.random.default_rng(ORDER_OF_GOALS).permutation(len(self._goals))

    @property
    def num_products(self) -> int:
        """How many are sold."""
        return len(self._products)

    @property
    def num_goals(self) -> int:
        """How many there are, of all splits."""
        return len(self._goals)

    def product(self, number: int) -> Product:
        """The product with this number."""
        return Product(*self._products[number])

    def goal(self, number: int) -> Goal:
        """The goal with this number."""
        return Goal(*self._goals[number])

    def goal_of(self, task_seed: int, split: str) -> int:
        """The number of a task's goal. Splits have no goal in common, if there are at least four."""
        first, count = part_of(self.num_goals, split)
        return int(self._order[first + task_seed % count])

    def search(self, query: str) -> list[int]:
        """The numbers of at most 50 products, best first."""
        return self._index.search(query)

    def __reduce__(self) -> Any:
        return catalogue_of, (self._config,)

    def __repr__(self) -> str:
        return f"Catalogue({self.num_products} products, {self.num_goals} goals)"


def part_of(num_goals: int, split: str) -> tuple[int, int]:
    """Where the goals of a split begin, in their order, and how many there are."""
    if num_goals > NUM_TEST + NUM_VAL:
        end_of_test, end_of_val = NUM_TEST, NUM_TEST + NUM_VAL
    else:
        end_of_test, end_of_val = num_goals // 4, num_goals // 2
    if num_goals < 4:
        return 0, num_goals
    first, end = {"test": (0, end_of_test), "val": (end_of_test, end_of_val), "train": (end_of_val, num_goals)}[split]
    return first, end - first


_open: weakref.WeakValueDictionary[tuple[str, tuple[Any, ...]], Catalogue] = weakref.WeakValueDictionary()
"""Those that environments of this process use. The files of others are closed."""


def catalogue_of(config: WebShopConfig) -> Catalogue:
    """The catalogue of this config: the one that is open, or that was made before, or a new one."""
    folder, key = storing.cache_folder(config.cache_dir), _key(config)
    known = str(folder), key
    with storing.one_at_a_time:
        catalogue = _open.get(known)
        if catalogue is None:
            catalogue = Catalogue(config, storing.stored(folder, key, functools.partial(_write, config)))
            _open[known] = catalogue
        return catalogue


def _key(config: WebShopConfig) -> tuple[Any, ...]:
    """What a catalogue depends on."""
    if config.file_path is None:
        return config.num_products or NUM_MADE, config.catalogue_seed, config.goals_per_product
    paths = ("file_path", "attr_path", "human_goals")
    return config.num_products, *(_file(name, getattr(config, name)) for name in paths)


def _file(name: str, path: str | None) -> tuple[str, int, int] | None:
    if path is None:
        return None
    path = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(path):
        raise ConfigurationError(f"{name}: there is no file {path}. Leave it out for products that are made, not read")
    about = os.stat(path)
    return path, about.st_size, about.st_mtime_ns


def _write(config: WebShopConfig, folder: Path) -> None:
    """Make it, and write it into this folder."""
    if config.file_path is None:
        products = generated.products(config.num_products or NUM_MADE, config.catalogue_seed)
        goals = generated.goals(products, config.catalogue_seed, config.goals_per_product)
    else:
        products, goals = official.read(config)
    storing.write_records(folder / "products.json", products)
    storing.write_records(folder / "goals.json", goals)
    write_index(_texts(products), folder)


def _texts(products: Iterable[Product]) -> Iterable[str]:
    """What is searched of each product."""
    for product in products:
        options = (value for values in product.options.values() for value in values)
        yield " ".join((product.title, product.query, product.description, *product.bullets, *options))
