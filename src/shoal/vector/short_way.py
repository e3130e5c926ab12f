"""The short way through a step of a few environments in the caller's own thread.

Where environments are few and cheap, most of a step's time would go into handing it on: from the face to the pool, the
backend, the runner and the slice, and the results back. Most of the time nothing happens that needs them. What does happen goes
the ordinary way from there: an episode that ends, an info, a result that is not quite as it should be, an exception.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.vector.actions import ActionWriter
from shoal.vector.backends.serial import SerialBackend
from shoal.vector.failures import Failure
from shoal.vector.layout import Array, FixedLeaf, Layout
from shoal.vector.messages import NOTHING, Outcome
from shoal.vector.plain_steps import PlainSteps, plain_steps_of
from shoal.vector.pool import Pool
from shoal.vector.runner import Runner

PlainStep = tuple[Array, Array, Array, Array, dict[str, Any]]
ndarray = np.ndarray


class ShortWay:
    """Steps all environments of a runner."""

    def __init__(
        self, runner: Runner, pool: Pool, actions: ActionWriter, plain: PlainSteps, *, hands_out: bool
    ) -> None:
        self._runner, self._slice, self._plain = runner, runner.slice, plain
        self._actions, known = actions, actions.known_numbers()
        self._number = None if known is None else known.__getitem__
        arena = pool.arena
        self._given_dtype, self._given_shape = arena.actions[0].dtype, arena.actions[0].shape
        self._copies = [
            array.copy for array in (arena.observations[0], arena.reward, arena.terminated, arena.truncated)
        ]
        self._hands_out = hands_out

    def step(self, actions: Any) -> PlainStep | Outcome | None:
        """Step all environments: what the caller is given, or what has to be looked at first.

        ``None`` if nobody was stepped, because actions are not good as they are, somebody has to be reset instead, or wants to
        know the time.
        """
        if self._slice.due or self._slice.clock is not None:
            return None
        if self._number is None:
            if not self._actions.is_plain(actions):
                return None
            given = [*actions.copy()]  # rows are views, and environments may keep what they are given
        elif type(actions) is ndarray and actions.dtype is self._given_dtype and actions.shape == self._given_shape:
            try:
                given = [*map(self._number, actions.tolist())]
            except KeyError:
                return None
        else:
            return None

        failures: list[Failure] = []
        results = self._plain.step(given, failures)
        if results is not None:
            outcome = Outcome([], [], failures, [])
            self._runner.take_steps(self._runner.rows, results, outcome)
            return outcome
        if not self._hands_out:
            return NOTHING
        copy_observations, copy_rewards, copy_terminated, copy_truncated = self._copies
        return copy_observations(), copy_rewards(), copy_terminated(), copy_truncated(), {}


def short_way_of(pool: Pool, layout: Layout, actions: ActionWriter, *, hands_out: bool) -> ShortWay | None:
    """The short way, where there is one. ``hands_out``: whether the caller gets copies of what is in the arena, and no more."""
    backend = pool.backend
    if not isinstance(backend, SerialBackend) or not isinstance(layout.action, FixedLeaf):
        return None
    (runner,) = backend.runners
    plain = plain_steps_of(runner.slice, runner.rows, pool.arena, layout)
    return None if plain is None else ShortWay(runner, pool, actions, plain, hands_out=hands_out)
