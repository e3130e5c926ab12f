"""Factories that need not be sent, because workers that are forked from the caller have them already.

So with ``start_method="fork"`` a factory may hold what cannot be pickled, and what is large is not copied. Everything else of
a recipe is pickled as for other workers; a factory in it is a number.
"""

from __future__ import annotations

import io
import itertools
import pickle
import weakref
from collections.abc import Iterable
from typing import Any

from shoal.vector.messages import EnvFn
from shoal.vector.pickling import PicklerByValue

_numbers = itertools.count()
_inherited: weakref.WeakValueDictionary[int, Inheritance] = weakref.WeakValueDictionary()


class Inheritance:
    """The factories of a backend. Whoever is forked as long as this is there has them."""

    def __init__(self, env_fns: Iterable[EnvFn]) -> None:
        self.env_fns = list(env_fns)
        self.places = {id(env_fn): place for place, env_fn in enumerate(self.env_fns)}
        self.number = next(_numbers)
        _inherited[self.number] = self

    def dumps(self, value: Any) -> bytes:
        """Pickle something for a process that inherits these."""
        file = io.BytesIO()
        _Pickler(self, file).dump(value)
        return file.getvalue()


class _Pickler(PicklerByValue):
    def __init__(self, inheritance: Inheritance, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self._inheritance = inheritance

    def persistent_id(self, value: Any) -> tuple[int, int] | None:
        place = self._inheritance.places.get(id(value))
        return None if place is None else (self._inheritance.number, place)


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: tuple[int, int]) -> EnvFn:
        number, place = pid
        return _inherited[number].env_fns[place]


def loads(data: bytes) -> Any:
    """Unpickle what was pickled for this process, by :meth:`Inheritance.dumps` or otherwise."""
    return _Unpickler(io.BytesIO(data)).load()
