"""Settings in YAML files: those that somebody wrote for ``--config``, and those that were saved with a run."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from shoal._version import __version__
from shoal.runs.durable import reason_of
from shoal.runs.folder import CONFIG, VERSIONS, RunFolder
from shoal.runs.settings import Settings, flat, names_of
from shoal.vector.caller import warn_caller
from shoal.vector.errors import ConfigurationError, StateError

MOST_NAMES = 5


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a YAML file, as they stand there."""
    try:
        values = load_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {reason_of(error)}") from None
    except (yaml.YAMLError, ValueError) as error:  # the second for a date that is none, and for what is no text
        raise ConfigurationError(f"{path} is no YAML: {what_is_wrong(error)}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigurationError(f"{path} must hold settings, one 'name: value' in each line, got {values!r}")
    return values


def read_saved_config(run: RunFolder, settings: type[Settings], needed: Collection[str]) -> dict[str, Any]:
    """The settings of a run. All were saved, so where some are missing the file is not what was saved.

    A version that came before may not have known all of them: these get their defaults, with a warning, unless they are
    needed: without those it is not the same training.

    Raises:
        StateError: the file is damaged.
    """
    path = run.path / CONFIG
    try:
        values = read_config(path)
    except ConfigurationError as error:
        raise _damaged(run, str(error)) from None
    known = flat(settings, values)
    missing = [name for name in names_of(settings) if name not in known]
    if not missing:
        return values
    version = run.made_with("shoal")
    if not values or version in (None, __version__) or any(name in missing for name in needed):
        raise _damaged(run, f"{path} lacks {_some_of(missing)}" if values else f"{path} is empty")
    warn_caller(f"{path} was saved by Shoal {version} and lacks {_some_of(missing)}: defaults are taken for these")
    return values


def load_yaml(text: str) -> Any:
    """What the text says; a name that stands there twice is a mistake, and not the last one's."""
    return yaml.load(text, _Loader)  # noqa: S506  # a safe one


def what_is_wrong(error: Exception) -> str:
    """In one line, with that of the file: the parser's own words take several."""
    line = ""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        line = f"line {error.problem_mark.line + 1}: "
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    return f"{line}{problem}"


class _Loader(yaml.SafeLoader):
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                what = f"{key.value!r} stands there twice: remove one of them"
                raise yaml.composer.ComposerError(None, None, what, key.start_mark)
            seen.add(key.value)
        return node


def _damaged(run: RunFolder, what: str) -> StateError:
    return StateError(
        f"the settings of the run {run.path} are damaged: {what}. Nothing was changed. What to do: put back the whole file; "
        f"the command in {VERSIONS}, given once more with --dry-run, prints what the run began with."
    )


def _some_of(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
