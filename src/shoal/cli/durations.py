"""How long something is to take, as it was typed."""

from __future__ import annotations

import math

from shoal.vector.errors import ConfigurationError


def check_seconds(name: str, value: float, *, or_none: bool = False) -> None:
    """Refuse what is not a length of time."""
    if not math.isfinite(value) or value < 0 or (value == 0 and not or_none):
        raise ConfigurationError(f"{name} must be a number {'of at least' if or_none else 'above'} 0, got {value:g}")
