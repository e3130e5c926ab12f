"""Numbers as people write them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.2g} µs"
