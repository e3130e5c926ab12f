"""What environments must be like, and what they must return; what is only a little different is put right."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.vector.messages import Census
from shoal.vector.observations import ContractViolation, shortened

NUMBERS = frozenset((float, int, np.float64, np.float32))
"""The types of rewards that are good as they are."""


def census_of(env: Any) -> Census:
    """What the caller has to know of an environment."""
    for name in ("observation_space", "action_space", "reset", "step"):
        if not hasattr(env, name):
            raise ContractViolation(f"its factory returned {shortened(env)}, which has no {name!r}")
    return Census(
        observation_space=env.observation_space,
        action_space=env.action_space,
        metadata=dict(getattr(env, "metadata", None) or {}),
        render_mode=getattr(env, "render_mode", None),
        was_reset=_was_reset(env),
    )


def _was_reset(env: Any) -> bool:
    """Whether the factory reset the environment. Only Gymnasium's OrderEnforcing wrapper can tell."""
    try:
        return wrapper_attribute(env, "has_reset") is True
    except AttributeError:
        return False


def wrapper_attribute(env: Any, name: str) -> Any:
    """An attribute of an environment, or of one of those that it wraps."""
    getter = getattr(env, "get_wrapper_attr", None)
    return getter(name) if getter is not None else getattr(env, name)


def why_not_a_step(result: Any) -> str:
    """What is wrong with what ``step`` returned, if it is not five things."""
    if isinstance(result, tuple) and len(result) == 4:
        return (
            "step() returned 4 values, as in the old gym; Gymnasium's has 5: "
            "observation, reward, terminated, truncated, info"
        )
    if inspect.iscoroutine(result):
        result.close()  # or Python would complain that nobody awaited it
        return (
            "step() returned a coroutine, but is no coroutine function: write `async def step`, and let no wrapper that "
            "looks at results stand around it"
        )
    return f"step() must return observation, reward, terminated, truncated and info, got {shortened(result)}"


def as_reward(value: Any) -> float:
    """A reward as a number."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if not isinstance(value, str | bytes):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise ContractViolation(f"the reward must be a number, got {shortened(value)}")


def as_flag(name: str, value: Any) -> bool:
    """``terminated`` or ``truncated`` as a bool. Old environments give numbers, also 0.0 and 1.0."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    is_whole = isinstance(value, bool | np.bool_ | int | np.integer)
    if is_whole or (isinstance(value, float | np.floating) and value in (0.0, 1.0)):
        return bool(value)
    raise ContractViolation(f"{name} must be a bool, got {shortened(value)}")


def as_info(value: Any) -> dict[str, Any]:
    """An info as a dictionary of its own."""
    if isinstance(value, Mapping):
        return dict(value)
    raise ContractViolation(f"the info must be a dictionary, got {shortened(value)}")
