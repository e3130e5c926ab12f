"""A CartPole whose step computes for a while, as the step of a simulator does."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import gymnasium

_TURNS = 10_000
_TRIALS = 20


class Computing(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Computes before every step, and changes nothing about it."""

    def __init__(self, env: gymnasium.Env[Any, Any], turns: int) -> None:
        super().__init__(env)
        self._turns = turns

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Compute, then step."""
        _compute(self._turns)
        return self.env.step(action)


def computing_cart_pole(microseconds: float) -> Callable[[], gymnasium.Env[Any, Any]]:
    """What makes a CartPole whose step computes for so long on an idle processor."""
    return functools.partial(_make, round(microseconds * 1e-6 / _seconds_of_turn()))


def _make(turns: int) -> gymnasium.Env[Any, Any]:
    return Computing(gymnasium.make("CartPole-v1"), turns)


def _compute(turns: int) -> None:
    # Turns are counted and no clock is watched: a process that loses its processor has its work still to do.
    value = 1
    for _ in range(turns):
        value = (value * 5 + 3) & 0xFFFF


def _seconds_of_turn() -> float:
    seconds = []
    for _ in range(_TRIALS):
        began = time.perf_counter()
        _compute(_TURNS)
        seconds.append(time.perf_counter() - began)
    return min(seconds) / _TURNS  # whatever else happens meanwhile only adds to it
