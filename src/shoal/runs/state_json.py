"""The state of a trainer as JSON, such that it comes back as it was: to the bit, and of the same types.

JSON has no arrays of numbers of a kind, no bytes, no tuples, no infinity, and keys are strings. These are written as a
dictionary with one reserved key, which says what it stands for:

    np.float32(0.1)       {"$": "scalar", "dtype": "<f4", "data": "zczMPQ=="}
    np.zeros(2)           {"$": "array", "dtype": "<f8", "shape": [2], "data": "AAAA…"}
    b"abc"                {"$": "bytes", "data": "YWJj"}
    (1, 2)                {"$": "tuple", "items": [1, 2]}
    float("nan")          {"$": "float", "value": "nan"}
    {3: "a"}              {"$": "dict", "items": [[3, "a"]]}

Nothing of it is pickled: reading a state never runs anything.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from shoal.vector.errors import ConfigurationError

TAG = "$"
KINDS = "biufcSUmM"
"""Those of NumPy's types that are plain bytes, and not references to objects."""


class NotEncoded(ValueError):
    """This is not what :func:`encode` makes."""


def encode(value: Any, name: str = "state") -> Any:
    """As JSON can hold it. ``name`` is what a value is called if it cannot be written."""
    if isinstance(value, np.ndarray | np.generic):
        return _encode_array(value, name)
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {TAG: "float", "value": str(value)}
    if type(value) is bytes:
        return {TAG: "bytes", "data": _as_text(value)}
    if type(value) is list:
        return [encode(part, f"{name}[{index}]") for index, part in enumerate(value)]
    if type(value) is tuple:
        return {TAG: "tuple", "items": encode(list(value), name)}
    if isinstance(value, Mapping):
        if all(type(key) is str for key in value) and TAG not in value:
            return {key: encode(part, f"{name}[{key!r}]") for key, part in value.items()}
        pairs = [[encode(key, f"a key of {name}"), encode(part, f"{name}[{key!r}]")] for key, part in value.items()]
        return {TAG: "dict", "items": pairs}
    raise ConfigurationError(
        f"{name} is of {type(value)}, which a checkpoint does not hold. What to do: give tensors as `tensors`, and in the "
        "state numbers, strings, bytes, NumPy arrays and lists, tuples and dictionaries of these."
    )


def decode(value: Any) -> Any:
    """What :func:`encode` was given. Raises :class:`NotEncoded` if it cannot have been."""
    if isinstance(value, list):
        return [decode(part) for part in value]
    if not isinstance(value, dict):
        return value
    if TAG not in value:
        return {key: decode(part) for key, part in value.items()}
    try:
        return _DECODERS[value[TAG]](value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotEncoded(f"{str(value)[:80]} stands for nothing: {type(error).__name__}: {error}") from error


def _encode_array(value: np.ndarray[Any, Any] | np.generic, name: str) -> dict[str, Any]:
    if value.dtype.kind not in KINDS:
        raise ConfigurationError(
            f"{name} is a NumPy value of dtype {value.dtype}, which a checkpoint does not hold: "
            "its elements are not plain numbers or text"
        )
    dtype, data = value.dtype.str, _as_text(value.tobytes())
    if isinstance(value, np.generic):
        return {TAG: "scalar", "dtype": dtype, "data": data}
    return {TAG: "array", "dtype": dtype, "shape": list(value.shape), "data": data}


def _decode_array(dtype_name: str, shape: list[int], data: str) -> np.ndarray[Any, Any]:
    dtype = np.dtype(dtype_name)
    buffer = bytearray(_as_bytes(data))
    if dtype.kind not in KINDS or len(buffer) != dtype.itemsize * math.prod(shape):
        raise ValueError(f"{len(buffer)} bytes are no array of {dtype_name} with shape {shape}")
    return np.ndarray(tuple(shape), dtype, buffer)


def _as_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _as_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "float": lambda value: float(value["value"]),
    "bytes": lambda value: _as_bytes(value["data"]),
    "tuple": lambda value: tuple(decode(value["items"])),
    "dict": lambda value: {decode(key): decode(part) for key, part in value["items"]},
    "scalar": lambda value: _decode_array(value["dtype"], [], value["data"])[()],
    "array": lambda value: _decode_array(value["dtype"], value["shape"], value["data"]),
}
