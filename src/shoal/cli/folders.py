"""Folders for what a command leaves behind, made before anything is done for which they are needed."""

from __future__ import annotations

from pathlib import Path

from shoal.vector.errors import ConfigurationError


def make_folder(path: Path, option: str) -> None:
    """Make it, or say in a sentence why it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(
            f"the folder {path} cannot be made: {reason}. Choose another one ({option})."
        ) from error
