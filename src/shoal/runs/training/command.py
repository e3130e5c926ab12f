"""What every command that trains does with what was said to it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from shoal.runs.config_file import read_config
from shoal.runs.folder import RunFolder
from shoal.runs.settings import Settings
from shoal.runs.training.loop import begin, changed, resume
from shoal.runs.training.trainee import Method, Shown
from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean


def start(method: Method, config: Settings, at: Path | None, shown: Shown, dry_run: bool) -> None:
    """Train, or print the settings that this would be done with."""
    if dry_run:
        _print_as_file(method.resolved(config))
    else:
        begin(method, config, shown, at=at)


def go_on(
    method: Method, path: Path, said: Mapping[str, Any], others: Mapping[str, Any], shown: Shown, dry_run: bool
) -> None:
    """Resume a run, or print what it would go on with. ``others`` are flags that only a beginning can have."""
    if refused := [name for name, value in others.items() if value is not None]:
        raise ConfigurationError(
            f"{', '.join(refused)} cannot be given together with --resume: "
            "a run goes on with its own settings, in its own folder"
        )
    if dry_run:
        _, config = changed(method, RunFolder.open(path), said)
        _print_as_file(method.resolved(config))
    else:
        resume(method, path, said, shown)


def _print_as_file(config: Settings) -> None:
    """As a file for the command: rich would take brackets for a style, and break long lines."""
    sys.stdout.write(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))


def settings_in(file: Path, settings: type[Settings], command: Callable[..., Any]) -> dict[str, Any]:
    """The settings in a file, in which somebody may have put a flag of the command that is none."""
    values = read_config(file)
    flags = inspect.signature(command).parameters.keys() - settings.model_fields.keys() - {"settings"}
    for name in values:
        if str(name).replace("-", "_") in flags:
            flag = f"--{str(name).replace('_', '-')}"
            raise ConfigurationError(
                f"{file} has {name}, which is no setting of a file: it is given on the command line only, as {flag}"
            )
    return values


def check_word(name: str, word: str, allowed: Collection[str]) -> None:
    """Refuse what is none of these words, with the nearest."""
    if word not in allowed:
        hint = did_you_mean(word, allowed)
        raise ConfigurationError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {word!r}.{hint}")
