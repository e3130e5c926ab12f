"""Batched worlds, as the engine sees them: environments of one kind that are stepped in one call.

A factory says that it can make them by having ``make_rows(num_rows)``. The engine uses it where all environments of a worker
come from one factory; anywhere else the factory makes single environments, with the same results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import gymnasium
from gymnasium.vector import AutoresetMode

from shoal.vector.layout import Array
from shoal.vector.messages import EnvFn

NEXT_STEP, SAME_STEP, DISABLED = 0, 1, 2
"""When a row begins its next episode, as compiled rules are told."""
MODES = {
    AutoresetMode.NEXT_STEP: NEXT_STEP,
    AutoresetMode.SAME_STEP: SAME_STEP,
    AutoresetMode.DISABLED: DISABLED,
}


class Rows(Protocol):
    """Some environments of one kind, by their place among them."""

    state: Any
    """A NumPy record array; the engine knows ``episode``, ``steps``, ``is_due``, ``key``, ``drawn`` and ``origin``."""
    everybody: Array
    """All places."""

    def env(self, place: int) -> gymnasium.Env[Any, Any]:
        """One of them, to be asked and drawn. It has ``reseed(seed)``, which begins its random numbers anew."""

    def attach(self, observations: Array, reward: Array, terminated: Array, truncated: Array) -> None:
        """Say where results go."""

    def renew(self, place: int, entropy: int) -> None:
        """Let one be as if it had just been made."""

    def begin(self, places: Array) -> None:
        """Begin an episode in these."""

    def step(self, places: Array, actions: Array, mode: int) -> int:
        """Take a step in these; returns how many episodes have ended."""

    def columns(self, places: Any) -> dict[str, Array]:
        """The infos of these, name by name."""

    def start_words(self, places: Any) -> Array:
        """What these begin an episode with beside their random numbers, as three words of 64 bits each."""

    def ending(self, place: int) -> dict[str, Any]:
        """``final_obs`` and ``final_info`` of an episode that has ended and been followed by another in the same step."""


MakeRows = Callable[[int], Rows]


def rows_maker(env_fns: Sequence[EnvFn]) -> MakeRows | None:
    """What makes all of these environments together, if that is possible."""
    if not env_fns or any(other is not env_fns[0] for other in env_fns):
        return None
    first = env_fns[0]
    if isinstance(first, functools.partial):
        make_rows = getattr(first.func, "make_rows", None)
        return None if make_rows is None or first.args else functools.partial(make_rows, **first.keywords)
    its: MakeRows | None = getattr(first, "make_rows", None)
    return its
