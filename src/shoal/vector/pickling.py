"""What is sent to the other side as a pickle.

What the other side may not be able to import, such as a class of a script, is sent by value. With a function go the globals
that it uses. cloudpickle does not see those that are used only in the body of a class that the function defines, as in
``class Env: observation_space = Box(-1, 1, (2,), np.float32)``, so they are added here.

Bounds of a large Box are arrays as large as an observation, twice, and as a rule the same number everywhere. Such an array
is sent as its shape and that number, so that what spaces take in a message does not depend on how large they are.
"""

from __future__ import annotations

import dis
import inspect
import io
import pickle
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import cloudpickle
import numpy as np

SMALL_NBYTES = 1024
"""Arrays up to this size are sent as they are."""


def dumps(value: Any) -> bytes:
    """Pickle for the caller: the fast way, or by value for what only this process can name."""
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:
        data: bytes = cloudpickle.dumps(value, protocol=5)
        return data


def why_unsendable(value: Any, path: str = "") -> str:
    """Why ``value`` cannot be sent to another process, naming the part of it that is to blame; empty if it can be."""
    try:
        pickle.loads(dumps(value))
    except Exception as error:
        if isinstance(value, dict):
            for key, part in value.items():
                if why := why_unsendable(part, f"{path}[{key!r}]"):
                    return why
        return f"{path or 'it'}: {type(error).__name__}: {error}"
    return ""


def dump_known(value: Any) -> bytes:
    """Pickle for a process that may not be able to import what is used here, quickly where everything is known everywhere."""
    try:
        return _dumped(_KnownPickler, value)
    except Exception:
        data: bytes = cloudpickle.dumps(value, protocol=5)
        return data


def dump_by_value(value: Any) -> bytes:
    """Pickle for a process that may not be able to import what is used here."""
    return _dumped(PicklerByValue, value)


def dump_spaces(value: Any) -> bytes:
    """As :func:`dumps`, for what has spaces in it."""
    try:
        return _dumped(_SpacePickler, value)
    except Exception:
        return dump_spaces_by_value(value)


def dump_spaces_by_value(value: Any) -> bytes:
    """As :func:`dump_spaces`, for what the other side may not be able to import."""
    return _dumped(_SpacePicklerByValue, value)


def _dumped(pickler: type[pickle.Pickler], value: Any) -> bytes:
    file = io.BytesIO()
    pickler(file, protocol=5).dump(value)
    return file.getvalue()


class PicklerByValue(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's, which also sees what is used in the bodies of classes that functions define."""

    def reducer_override(self, value: Any) -> Any:
        """How to pickle what is not a plain value."""
        reduced = super().reducer_override(value)
        if isinstance(value, FunctionType) and isinstance(reduced, tuple) and len(reduced) > 2:
            _, slots = reduced[2]
            for name in _names_in_class_bodies(value.__code__):
                if name in value.__globals__:
                    slots["__globals__"].setdefault(name, value.__globals__[name])
        return reduced


def _names_in_class_bodies(code: CodeType) -> Iterator[str]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if not inner.co_flags & inspect.CO_OPTIMIZED:  # the body of a class
                yield from (each.argval for each in dis.get_instructions(inner) if each.opname in _LOADS)
            yield from _names_in_class_bodies(inner)


_LOADS = frozenset(("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"))


KNOWN = frozenset(("builtins", "numpy", "shoal"))
"""Packages that every worker has, of the same version."""


class _NotKnown(Exception):
    """What is to be pickled is of a class that a worker may not be able to import."""


class _KnownPickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        module = getattr(value, "__module__", None) or type(value).__module__
        if module.partition(".")[0] in KNOWN:
            return NotImplemented
        raise _NotKnown


class _SpacePickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return _as_constant(value)


class _SpacePicklerByValue(PicklerByValue):
    def reducer_override(self, value: Any) -> Any:
        reduced = _as_constant(value)
        return super().reducer_override(value) if reduced is NotImplemented else reduced


def _as_constant(value: Any) -> Any:
    """What makes this array anew, if all of its elements are the same, bit by bit."""
    if type(value) is not np.ndarray or value.nbytes <= SMALL_NBYTES or value.dtype.hasobject:
        return NotImplemented
    elements = value.reshape(-1)
    if (elements[1:].view(f"V{value.itemsize}") != elements[:-1].view(f"V{value.itemsize}")).any():
        return NotImplemented
    return np.full, (value.shape, elements[0], value.dtype)
