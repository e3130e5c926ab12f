"""What a run was made with, so that it can be repeated: versions, machine and command."""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
import sys

from shoal._version import __version__

PACKAGES = ("numpy", "gymnasium", "torch", "safetensors")


def current_versions() -> dict[str, str | None]:
    """Of Python, the machine, Shoal and what it stands on; ``None`` for what is not installed. Nothing is imported."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "shoal": __version__,
        **{name: _version_of(name) for name in PACKAGES},
        "command": shlex.join(sys.orig_argv),
    }


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
