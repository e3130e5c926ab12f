"""What ``es_manager`` says about where worlds run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.llm.members import Tag
from shoal.llm.registry import REGISTERED_ENVS
from shoal.llm.settings import Settings
from shoal.llm.worlds import STEP_SECONDS, Placing, Worlds
from shoal.vector.arguments import check_choice, check_count, check_flag, time_limit
from shoal.vector.engine import POLICIES
from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean

BACKENDS = ("shm", "pipes")


def placing_of(section: Settings, tags: Sequence[Tag]) -> tuple[Worlds, list[str]]:
    """The worlds of these members, which are not started yet; and the types that stay in this process."""
    is_parallel = section.get("use_multiprocessing", True)
    check_flag(section.full("use_multiprocessing"), is_parallel)
    workers = section.get("max_workers")
    if workers is not None:
        check_count(section.full("max_workers"), workers)
    types = _types_of(section)
    backend, on_fault = section.get("backend", "shm"), section.get("on_fault", "truncate")
    check_choice(section.full("backend"), backend, BACKENDS)
    check_choice(section.full("on_fault"), on_fault, POLICIES)
    seconds = section.get("step_timeout", STEP_SECONDS)
    placing = Placing(
        workers,
        time_limit(section.full("step_timeout"), seconds),
        tuple(row for row, tag in enumerate(tags) if tag.env_type in types),
        backend,
        on_fault,
    )
    return Worlds([tag.maker for tag in tags], placing, is_parallel=is_parallel), types


def _types_of(section: Settings) -> list[str]:
    key, types = section.full("sequential_env_types"), section.get("sequential_env_types", [])
    if not isinstance(types, list):
        raise ConfigurationError(f"{key} must be a list of types of worlds, got {types!r}")
    known: list[Any] = list(REGISTERED_ENVS)
    for one in types:
        if one not in known and (hint := did_you_mean(str(one), known)):
            raise ConfigurationError(f"{key} has {one!r}, and no world has this type.{hint}")
    return types
