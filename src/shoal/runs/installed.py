"""Whether a package that need not be there is there."""

from __future__ import annotations

import importlib.util


def is_installed(package: str) -> bool:
    """Whether it could be imported, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # it was put there by hand, as tests do
        return True
