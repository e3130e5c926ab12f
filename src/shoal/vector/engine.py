"""How environments are run: everything that every face can be told about workers, deadlines and faults."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from shoal.vector.arguments import check_count, time_limit
from shoal.vector.caller import warn_caller
from shoal.vector.errors import ConfigurationError
from shoal.vector.plan import needs_processes
from shoal.vector.wards import Deadlines

POLICIES = ("restore", "truncate", "raise")
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


@dataclass(frozen=True)
class Engine:
    """The keywords as they were given; :class:`ParallelEnv` says what they mean."""

    backend: str = "auto"
    num_workers: int | None = None
    threads_per_worker: int | None = None
    start_method: str | None = None
    step_timeout: float | None = None
    timeouts: Mapping[str, float | None] | None = None
    pin_workers: bool = True
    isolate_rng: bool = False
    on_fault: str | None = None
    max_worker_memory: int | str | None = None
    max_worker_episodes: int | None = None
    replayable: bool | None = None
    in_process: Sequence[int] = ()
    step_costs: tuple[float, ...] = ()
    """Not a keyword, but what ``backend="auto"`` has found."""

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> Engine:
        """Those of a face's keywords that are about how environments are run."""
        return cls(**{each.name: keywords[each.name] for each in fields(cls) if each.name in keywords})


@dataclass(frozen=True)
class Care:
    """What to do about workers that die, hang or grow, checked."""

    on_fault: str
    deadlines: Deadlines
    max_worker_memory: int | None = None
    max_worker_episodes: int | None = None
    is_replayable: bool = True

    @property
    def is_journaled(self) -> bool:
        """Whether what environments are asked is written down."""
        return self.on_fault != "raise"


def care_of(engine: Engine, backend: str) -> Care:
    """Check what was asked for, and fill in what was not."""
    policy = _policy(engine.on_fault, backend)
    if engine.max_worker_episodes is not None:
        check_count("max_worker_episodes", engine.max_worker_episodes)
    memory = None if engine.max_worker_memory is None else memory_limit("max_worker_memory", engine.max_worker_memory)
    care = Care(policy, _deadlines(engine), memory, engine.max_worker_episodes, engine.replayable is not False)
    is_limited = memory is not None or care.max_worker_episodes is not None
    if is_limited and policy == "raise" and needs_processes(backend):
        raise ConfigurationError(
            'max_worker_memory and max_worker_episodes replace workers, for which on_fault must be "restore" or "truncate"'
        )
    if needs_processes(backend):
        return care
    if care.deadlines or is_limited:
        given = ("step_timeout", "timeouts", "max_worker_memory", "max_worker_episodes")
        named = [f"{name}={value!r}" for name in given if (value := getattr(engine, name)) is not None]
        warn_caller(
            f'{" and ".join(named)} has no effect with backend="{backend}": an environment in this process cannot '
            'be ended. Use backend="shm" or "pipes".',
            UserWarning,
        )
    return replace(care, deadlines=Deadlines(), max_worker_memory=None, max_worker_episodes=None)


def _policy(on_fault: str | None, backend: str) -> str:
    if on_fault is None:
        # In this process nobody dies alone, so nothing has to be written down.
        return "restore" if needs_processes(backend) else "raise"
    if on_fault not in POLICIES:
        raise ConfigurationError(f"on_fault must be one of {', '.join(map(repr, POLICIES))}, got {on_fault!r}")
    return on_fault


def _deadlines(engine: Engine) -> Deadlines:
    given = dict(engine.timeouts or {})
    known = [each.name for each in fields(Deadlines)]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigurationError(f"timeouts may have {', '.join(map(repr, known))}, got {name!r}.{hint}")
    limits = {name: time_limit(f"timeouts[{name!r}]", value) for name, value in given.items()}
    if engine.step_timeout is not None:
        limits["step"] = time_limit("step_timeout", engine.step_timeout)
    return Deadlines(**limits)


def memory_limit(name: str, value: int | str) -> int:
    """The number of bytes that are meant."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", str(value))
    if isinstance(value, bool) or match is None or match[2].lower() not in UNITS or not 0 < float(match[1]) < math.inf:
        raise ConfigurationError(
            f'{name} must be a number of bytes or a text such as "2 GB" or "500 MiB", got {value!r}'
        )
    return int(float(match[1]) * UNITS[match[2].lower()])
