"""What a config says beside its groups: where worlds run, seeds, and what a bad turn costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shoal.llm.members import Tag
from shoal.llm.registry import REGISTERED_ENVS
from shoal.llm.settings import Settings
from shoal.llm.worlds import STEP_SECONDS, Placing
from shoal.vector.arguments import check_choice, check_count, check_flag, check_seed, time_limit
from shoal.vector.engine import POLICIES
from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean

BACKENDS = ("shm", "pipes")
FORMAT_PENALTY = 0.1


def placing_of(section: Settings, tags: Sequence[Tag]) -> tuple[Placing, list[str]]:
    """How these members are run, as ``es_manager`` says; and the types that stay in this process."""
    workers = section.get("max_workers")
    if workers is not None:
        check_count(section.full("max_workers"), workers)
    types = _types_of(section)
    backend, on_fault = section.get("backend", "shm"), section.get("on_fault", "truncate")
    check_choice(section.full("backend"), backend, BACKENDS)
    check_choice(section.full("on_fault"), on_fault, POLICIES)
    return Placing(
        num_workers=workers,
        step_timeout=time_limit(section.full("step_timeout"), section.get("step_timeout", STEP_SECONDS)),
        in_process=tuple(row for row, tag in enumerate(tags) if tag.env_type in types),
        backend=backend,
        on_fault=on_fault,
    ), types


def _types_of(section: Settings) -> list[str]:
    key, types = section.full("sequential_env_types"), section.get("sequential_env_types", [])
    if not isinstance(types, list):
        raise ConfigurationError(f"{key} must be a list of types of worlds, got {types!r}")
    known = list(REGISTERED_ENVS)
    for one in types:
        if one not in known and (hint := did_you_mean(str(one), known)):
            raise ConfigurationError(f"{key} has {one!r}, and no world has this type.{hint}")
    return types


def flag_of(section: Settings, name: str, default: bool) -> bool:
    """A key that is true or false."""
    value: bool = section.get(name, default)
    check_flag(section.full(name), value)
    return value


def seed_of(section: Settings, name: str, default: int | None = None) -> int | None:
    """A key that is a seed."""
    value: int | None = section.get(name, default)
    if value is not None:
        check_seed(section.full(name), value)
    return value


def format_penalty_of(section: Settings) -> float:
    """What a turn costs in which not all is an action. A penalty, whichever sign it is written with."""
    key, value = section.full("format_penalty"), section.get("format_penalty", FORMAT_PENALTY)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigurationError(f"{key} must be a number, got {value!r}")
    return abs(float(value))
