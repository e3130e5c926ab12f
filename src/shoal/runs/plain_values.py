"""A configuration as values that YAML can hold, and that read the same for whoever opens the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np

from shoal.vector.errors import ConfigurationError


def as_plain(value: Any, name: str = "config") -> Any:
    """The same with dictionaries, lists, numbers, strings and ``None`` alone, in the same order.

    ``name`` is what a value is called if it cannot be written, such as ``config['policy']['activation']``.
    """
    if isinstance(value, Enum):
        return as_plain(value.value, name)
    if isinstance(value, np.generic):
        return as_plain(value.item(), name)
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {_key(key, name): as_plain(part, f"{name}[{key!r}]") for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return as_plain(value.tolist(), name)
    if isinstance(value, Set):
        return as_plain(sorted(value), name)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [as_plain(part, f"{name}[{index}]") for index, part in enumerate(value)]
    raise ConfigurationError(
        f"{name} is of {type(value)}, which cannot be written to config.yaml. "
        "What to do: give numbers, strings, lists and dictionaries, such as the name of a class in place of the class."
    )


def _key(key: Any, name: str) -> str | int:
    if isinstance(key, str | int):
        plain: str | int = as_plain(key)
        return plain
    raise ConfigurationError(
        f"{name} has the key {key!r} of {type(key)}, and config.yaml holds strings and whole numbers"
    )
