"""The folder that a run leaves behind. Every run has one, and the same things have the same names in each.

    runs/shoal-CartPole-v0__ppo__1__20260314-150926/
      config.yaml        every setting, as it was resolved
      versions.json      what it ran on, and the command that started it
      metrics.jsonl      one line after every update
      checkpoints/       the last few, and the best
      .lock              who trains in it

The settings are what makes it a run: a folder that has them is never given to another.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from shoal.runs.claim import CLAIM
from shoal.runs.durable import reason_of, sync_folder, write_new
from shoal.runs.plain_values import as_plain
from shoal.runs.versions import current_versions
from shoal.vector.errors import ConfigurationError, StateError

CONFIG, VERSIONS, METRICS, CHECKPOINTS = "config.yaml", "versions.json", "metrics.jsonl", "checkpoints"
LONGEST_PART = 60
"""Characters of one part of a name: file systems allow 255 for the whole."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. It can be given wherever a path can."""

    path: Path
    is_new: bool = field(default=False, compare=False)
    """Whether the folder itself was made for this run, just now."""

    @classmethod
    def create(
        cls, root: str | os.PathLike[str], env: str, algorithm: str, seed: int | None, config: Mapping[str, Any]
    ) -> RunFolder:
        """Make a new one in ``root``, named by what is run, and write down how.

        Two runs that start in the same second get a folder each: making a folder fails if it is there, and the second
        one takes the next name.
        """
        seed_name = "no-seed" if seed is None else str(int(seed))
        name = "__".join([_as_file_name(env), _as_file_name(algorithm), seed_name, time.strftime("%Y%m%d-%H%M%S")])
        contents = _contents(config, algorithm)
        try:
            os.makedirs(root, exist_ok=True)
            path = _make_first_free(Path(root), name)
        except OSError as error:
            raise _cannot_be_made(Path(root, name), error) from error
        try:
            _fill(path, contents)
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)  # it is ours, and there is no run in it
            raise _cannot_be_made(path, error) from error
        return cls(path, is_new=True)

    @classmethod
    def create_at(
        cls, path: str | os.PathLike[str], config: Mapping[str, Any], algorithm: str | None = None
    ) -> RunFolder:
        """Make one at a path of the user's choice, which may be there already but must not hold a run."""
        contents = _contents(config, algorithm)
        is_new = not os.path.lexists(path)
        try:
            os.makedirs(path, exist_ok=True)
            _fill(Path(path), contents)
        except FileExistsError as error:
            if not Path(path).is_dir():
                raise _cannot_be_made(Path(path), error) from error
            raise StateError(
                f"{path} holds a run already: there is a {CONFIG} in it. "
                "What to do: resume that run, choose another folder, or remove this one."
            ) from None
        except OSError as error:
            raise _cannot_be_made(Path(path), error) from error
        return cls(Path(path), is_new)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunFolder:
        """The folder of a run that was started before."""
        if not os.path.isdir(path):
            raise StateError(f"{path} is not the folder of a run: {_what_is_there_instead(Path(path))}")
        missing = [name for name in (CONFIG, VERSIONS) if not Path(path, name).is_file()]
        if missing:
            raise StateError(
                f"{path} is not the folder of a run: it has no {' and no '.join(missing)}.{_runs_in(Path(path))}"
            )
        return cls(Path(path))

    def withdraw(self) -> None:
        """Take back a run that has left nothing but how it was meant to be. A folder that was there before stays."""
        try:
            files = list(self.path.iterdir())
            if {file.name for file in files} <= {CONFIG, VERSIONS, CLAIM}:
                for file in files:
                    file.unlink()
                if self.is_new:
                    self.path.rmdir()
        except OSError:
            pass  # what has ended the run is what the user must hear of, and not this

    @property
    def metrics_path(self) -> Path:
        """Where :class:`MetricsLog` writes."""
        return self.path / METRICS

    @property
    def checkpoints_path(self) -> Path:
        """Where :class:`Checkpoints` writes."""
        return self.path / CHECKPOINTS

    def read_config(self) -> dict[str, Any]:
        """The settings that the run was started with."""
        try:
            config = yaml.safe_load((self.path / CONFIG).read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise StateError(f"{self.path / CONFIG} cannot be read: {error}") from error
        if not isinstance(config, dict):
            raise StateError(f"{self.path / CONFIG} holds no settings: it should be a mapping")
        return config

    def note_setting(self, name: str, value: Any) -> None:
        """Write down a setting that was decided later. If that fails, the settings stay as they were."""
        new = self.path / f".{CONFIG}.new"
        try:
            new.unlink(missing_ok=True)
            write_new(new, _contents({**self.read_config(), name: value}).settings)
            new.replace(self.path / CONFIG)
            sync_folder(self.path)
        except OSError as error:
            raise StateError(
                f"{name}: {value} cannot be written into {self.path / CONFIG}: {reason_of(error)}"
            ) from error

    def read_versions(self) -> dict[str, str | None]:
        """What the run was started with: versions of packages, the machine, the command."""
        try:
            versions: dict[str, str | None] = json.loads((self.path / VERSIONS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StateError(f"{self.path / VERSIONS} cannot be read: {error}") from error
        return versions

    def made_with(self, name: str) -> str | None:
        """Which version of a package, or, under ``algorithm``, in which way; ``None`` if that is not known."""
        try:
            versions: Any = self.read_versions()
        except StateError:
            return None
        version = versions.get(name) if isinstance(versions, dict) else None
        return version if isinstance(version, str) else None

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)


def _as_file_name(text: str) -> str:
    """With whatever has no place in a file name replaced; never empty, never hidden."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:LONGEST_PART].strip(".-") or "unnamed"


def _make_first_free(root: Path, name: str) -> Path:
    for number in itertools.count(1):
        path = root / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise AssertionError  # counting does not end


class Contents(NamedTuple):
    """What the files of a new run hold."""

    settings: bytes
    versions: bytes


def _contents(config: Mapping[str, Any], algorithm: str | None = None) -> Contents:
    """Put into words before anything is made, so that what cannot be written is refused in time."""
    settings = yaml.safe_dump(as_plain(config), sort_keys=False, allow_unicode=True, default_flow_style=False)
    versions = {**({} if algorithm is None else {"algorithm": algorithm}), **current_versions()}
    return Contents(settings.encode(), f"{json.dumps(versions, indent=2)}\n".encode())


def _fill(path: Path, contents: Contents) -> None:
    write_new(path / CONFIG, contents.settings)  # first, because a second run in the same folder must fail on it
    try:
        (path / VERSIONS).unlink(missing_ok=True)  # of a run whose settings somebody has removed
        write_new(path / VERSIONS, contents.versions)
        sync_folder(path)
    except OSError:
        for name in (VERSIONS, CONFIG):
            (path / name).unlink(missing_ok=True)
        raise


def _cannot_be_made(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"the folder of the run cannot be made at {path}: {reason_of(error)}. Nothing was started. "
        "What to do: make room or get the right to write there, or choose another place."
    )


def _what_is_there_instead(path: Path) -> str:
    return "it is a file." if path.exists() else "there is nothing at this path."


def _runs_in(path: Path) -> str:
    """Whoever names the folder of all runs is told which there are."""
    runs = sorted(file.parent.name for file in path.glob(f"*/{CONFIG}"))
    return (
        f" The runs inside it are {', '.join(runs[:5])}{', …' if len(runs) > 5 else ''}: open one of these."
        if runs
        else ""
    )
