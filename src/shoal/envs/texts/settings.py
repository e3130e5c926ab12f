"""The config of a text world: a dataclass, given as one, as a mapping, or field by field."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean


def config_of(config_class: type[Any], config: Any, settings: Mapping[str, Any]) -> Any:
    """The config that is meant; a field that does not exist is an error that names the nearest."""
    if config is None:
        values: dict[str, Any] = {}
    elif isinstance(config, config_class):
        values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    elif isinstance(config, Mapping):
        values = dict(config)
    else:
        raise ConfigurationError(
            f"config must be a {config_class.__name__} or a mapping of its fields, got {type(config).__name__}"
        )
    values.update(settings)
    known = [field.name for field in dataclasses.fields(config_class)]
    for name in values:
        if name not in known:
            hint = did_you_mean(str(name), known) or f" There are {', '.join(known)}."
            raise ConfigurationError(f"{config_class.__name__} has no field {name!r}.{hint}")
    return config_class(**values)


def check_probability(name: str, value: object) -> None:
    """Refuse what is not a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise ConfigurationError(f"{name} must be a number from 0 to 1, got {value!r}")
