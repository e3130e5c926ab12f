"""What training needs beside Shoal itself."""

from __future__ import annotations

import importlib.util

from shoal.vector.errors import ConfigurationError

NEEDED = ("torch", "numba", "threadpoolctl", "safetensors", "matplotlib")


def missing_for_training() -> list[str]:
    """What is not installed."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def check_that_training_is_installed() -> None:
    """Say what to install, before anything is imported that is not there."""
    if missing := missing_for_training():
        is_or_are = "is" if len(missing) == 1 else "are"
        raise ConfigurationError(
            f"training needs {', '.join(missing)}, which {is_or_are} not installed: pip install 'shoal[train]'"
        )
