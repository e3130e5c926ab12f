"""What is sent to the other side as a pickle.

Bounds of a large Box are arrays as large as an observation, twice, and as a rule the same number everywhere. Such an array
is sent as its shape and that number, so that what spaces take in a message does not depend on how large they are.
"""

from __future__ import annotations

import io
import pickle
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


def dump_spaces(value: Any) -> bytes:
    """As :func:`dumps`, for what has spaces in it."""
    try:
        return _dumped(_Pickler, value)
    except Exception:
        return dump_spaces_by_value(value)


def dump_spaces_by_value(value: Any) -> bytes:
    """As :func:`dump_spaces`, for what the other side may not be able to import."""
    return _dumped(_PicklerByValue, value)


def _dumped(pickler: type[pickle.Pickler], value: Any) -> bytes:
    file = io.BytesIO()
    pickler(file, protocol=5).dump(value)
    return file.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return _as_constant(value)


class _PicklerByValue(cloudpickle.Pickler):  # type: ignore[misc]
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
