"""Configs as they come: a dictionary, a YAML file, or anything whose parts are attributes or items (OmegaConf, dataclasses).

Whatever is wrong is said with the whole name of the key: ``es_manager.train.env_groups``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean


class Settings:
    """A section of a config."""

    def __init__(self, content: Any, name: str = "") -> None:
        self._content, self.name = content, name

    @classmethod
    def of(cls, config: Any) -> Settings:
        """What a caller has given as its config."""
        if isinstance(config, Settings):
            return config
        if isinstance(config, str | Path):
            try:
                config = yaml.safe_load(Path(config).read_text())
            except (OSError, yaml.YAMLError) as error:
                raise ConfigurationError(f"the config cannot be read from {str(config)!r}: {error}") from error
        if not _has_parts(config):
            raise ConfigurationError(
                f"config must be a dictionary, the path of a YAML file, or an object with sections, got {config!r}"
            )
        return cls(config)

    def full(self, name: str) -> str:
        """The whole name of a key of this section."""
        return f"{self.name}.{name}" if self.name else name

    def __iter__(self) -> Iterator[str]:
        content = self._content
        return iter([str(one) for one in (content if isinstance(content, Mapping) else vars(content))])

    def get(self, name: str, default: Any = None) -> Any:
        """A plain value. One that is missing, or empty, is the default."""
        value = self._part(name)
        return default if value is None else plain(value)

    def need(self, name: str) -> Any:
        """A plain value that must be there."""
        value = self.get(name)
        if value is None:
            raise ConfigurationError(f"{self.full(name)} is missing in the config.{self._hint(name)}")
        return value

    def section(self, name: str) -> Settings:
        """A section that must be there."""
        value = self._part(name)
        if value is None:
            raise ConfigurationError(f"the section {self.full(name)} is missing in the config.{self._hint(name)}")
        if not _has_parts(value):
            raise ConfigurationError(f"{self.full(name)} must be a section of the config, got {value!r}")
        return Settings(value, self.full(name))

    def optional(self, name: str) -> Settings:
        """A section that may be missing."""
        return Settings({}, self.full(name)) if self._part(name) is None else self.section(name)

    def _part(self, name: str) -> Any:
        content = self._content
        if isinstance(content, Mapping):
            return content.get(name)
        return getattr(content, name, None)

    def _hint(self, name: str) -> str:
        return "" if name in list(self) else did_you_mean(name, self)


def plain(value: Any) -> Any:
    """The same in Python's own dictionaries and lists."""
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(one) for one in value]
    return plain(vars(value)) if type(value).__name__ == "SimpleNamespace" else value


def _has_parts(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value)
    )
