"""What callers pass, checked before anything is done with it, and refused in a sentence."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import numpy as np
from gymnasium.vector import AutoresetMode

from shoal.vector.errors import ConfigurationError

MOST_SECONDS: Final = 1e9
"""About thirty years. Systems count time in numbers of limited size."""


def check_count(name: str, value: object) -> None:
    """Refuse what is not a number of things."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ConfigurationError(f"{name} must be a whole number of at least 1, got {value!r}")


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither yes nor no."""
    if not isinstance(value, bool | np.bool_):
        raise ConfigurationError(f"{name} must be True or False, got {value!r}")


def check_seed(name: str, value: object) -> None:
    """Refuse what does not seed anything."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ConfigurationError(f"{name} must be a whole number of at least 0, got {value!r}")


def check_choice(name: str, value: object, allowed: Collection[str]) -> None:
    """Refuse what is none of these, and suggest the nearest."""
    if value in allowed:
        return
    near = difflib.get_close_matches(str(value), allowed, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigurationError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.{hint}")


def autoreset_mode_of(value: object) -> AutoresetMode:
    """Gymnasium's mode, from itself or its value."""
    if isinstance(value, AutoresetMode):
        return value
    check_choice("autoreset_mode", value, [mode.value for mode in AutoresetMode])
    return AutoresetMode(value)


def seconds_to_wait(timeout: object) -> float | None:
    """The number of seconds; ``None`` without limit. Refused before anything is waited for, so that nothing is lost."""
    if timeout is None:
        return None
    if not _is_number(timeout) or not timeout >= 0:  # type: ignore[operator]
        raise ConfigurationError(f"timeout must be a number of seconds, at least 0, or None, got {timeout!r}")
    return _in_seconds("timeout", timeout)


def time_limit(name: str, value: object) -> float | None:
    """The number of seconds that something may take; ``None`` without limit."""
    if value is None:
        return None
    if not _is_number(value) or not value > 0:  # type: ignore[operator]
        raise ConfigurationError(f"{name} must be a positive number of seconds or None, got {value!r}")
    return _in_seconds(name, value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _in_seconds(name: str, value: Any) -> float | None:
    if value == math.inf:
        return None
    if value > MOST_SECONDS:
        raise ConfigurationError(
            f"{name} is more than {MOST_SECONDS:g} seconds, which is more than a system waits: use None for no limit"
        )
    return float(value)


def check_factories(env_fns: Sequence[Callable[[], Any]]) -> None:
    """Refuse what cannot make environments."""
    if not env_fns:
        raise ConfigurationError("env_fns is empty: at least one environment is needed")
    for index, env_fn in enumerate(env_fns):
        if not callable(env_fn):
            raise ConfigurationError(f"env_fns[{index}] is not a callable that makes an environment: got {env_fn!r}")
