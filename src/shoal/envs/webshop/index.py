"""Search by BM25. The index is made by bm25s, once, and saved; searching needs NumPy alone.

BM25 gives each word of a query a score for each product that has the word, and adds them. bm25s computes these scores ahead:
they are a matrix of few numbers, of which a search adds the columns of its words. It is mapped from a file, so that all
processes share it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from shoal.envs.webshop.stop_words import STOP_WORDS
from shoal.vector.errors import ConfigurationError

MOST_RESULTS = 50
LONGEST_QUERY = 1000
_WORD = re.compile(r"[^\W_]+")
_ARRAYS = ("data", "indices", "indptr")


def terms_of(text: str) -> list[str]:
    """The words of a text that are searched for, in the singular, more or less."""
    return [_singular(word) for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def write_index(texts: Iterable[str], folder: Path) -> None:
    """Make the index of these texts, in this folder."""
    try:
        import bm25s
    except ImportError:
        raise ConfigurationError(
            "WebShop: the index of a new catalogue is made by bm25s, which is not installed: pip install 'shoal[text]'"
        ) from None
    words: dict[str, int] = {}
    numbers = [[words.setdefault(term, len(words)) for term in terms_of(text)] for text in texts]
    words[""] = len(words)  # bm25s wants one that stands in no text
    index = bm25s.BM25()
    with _no_monitor():
        index.index((numbers, words), show_progress=False)
    for name in _ARRAYS:
        np.save(folder / f"{name}.npy", index.scores[name])
    (folder / "words.json").write_text(json.dumps(words), encoding="utf-8")


@contextmanager
def _no_monitor() -> Iterator[None]:
    """Keep tqdm, which bm25s uses where there is one, from starting a thread that stays, even for bars that nobody sees."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield
        return
    interval, tqdm.monitor_interval = tqdm.monitor_interval, 0
    try:
        yield
    finally:
        tqdm.monitor_interval = interval


class Index:
    """Finds products by their words."""

    def __init__(self, folder: Path, num_products: int) -> None:
        self._num_products = num_products
        self._scores, self._products, starts = (
            np.load(folder / f"{name}.npy", mmap_mode="r").view(np.ndarray) for name in _ARRAYS
        )
        self._starts: list[int] = starts.tolist()
        self._words: dict[str, int] = json.loads((folder / "words.json").read_text(encoding="utf-8"))

    def search(self, query: str) -> list[int]:
        """The products that are most like the query, best first; of equal ones, the first. At most 50."""
        known = [self._words[term] for term in dict.fromkeys(terms_of(query[:LONGEST_QUERY])) if term in self._words]
        if not known:
            return []
        scores: np.ndarray[Any, Any] = np.zeros(self._num_products, np.float32)
        for word in known:
            column = slice(self._starts[word], self._starts[word + 1])
            scores[self._products[column]] += self._scores[column]  # a product is in a column once
        least = np.float32(0)
        if self._num_products > MOST_RESULTS:
            least = np.partition(scores, -MOST_RESULTS)[-MOST_RESULTS]
        found = np.flatnonzero((scores >= least) & (scores > 0))
        return found[np.argsort(-scores[found], kind="stable")][:MOST_RESULTS].tolist()  # type: ignore[no-any-return]
