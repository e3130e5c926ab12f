"""The short way through a step of a few environments in the caller's own thread.

Where environments are few and cheap, most of a step's time would go into handing it on: from the face to the pool, the
backend, the runner and the slice, and the results back. Most of the time nothing happens that needs them: every environment
is stepped, none of them ends, none has anything else to tell. What does happen goes the ordinary way from there: an episode
that ends, an info, a result that is not quite as it should be, an exception.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.vector.actions import ActionWriter
from shoal.vector.backends.serial import SerialBackend
from shoal.vector.batch_slice import BatchSlice
from shoal.vector.failures import Failure
from shoal.vector.layout import FixedLeaf, Layout
from shoal.vector.messages import NOTHING, Outcome
from shoal.vector.pool import Pool
from shoal.vector.runner import Runner
from shoal.vector.slices import FEW, NUMBERS


class ShortWay:
    """Steps all environments of a runner."""

    def __init__(self, runner: Runner, pool: Pool, actions: ActionWriter, leaf: FixedLeaf) -> None:
        self._runner, self._slice = runner, runner.slice
        self._actions = actions
        arena = pool.arena
        self._observations, self._dtype, self._shape = arena.observations[0], leaf.dtype, leaf.shape
        self._rewards = arena.reward.data
        self._flags = [array.data.cast("B") for array in (arena.terminated, arena.truncated)]
        self._no_flags = bytes(pool.num_envs)

    def suits(self, actions: Any) -> bool:
        """Whether these can be stepped as they are, and nobody has to be reset instead, or wants to know the time."""
        return not self._slice.due and self._slice.clock is None and self._actions.is_plain(actions)

    def step(self, actions: Any) -> Outcome:
        """Step all environments; results are in the arena."""
        failures: list[Failure] = []
        # A number of an array is a copy already. A row is a view, and environments may keep what they are given.
        its = actions if actions.ndim == 1 else actions.copy()
        results = self._slice.call_steps(self._slice.rows, its, failures)
        if not failures and self._has_taken(results):
            return NOTHING
        outcome = Outcome([], [], failures, [])
        self._runner.take_steps(results, outcome)
        return outcome

    def _has_taken(self, results: list[Any]) -> bool:
        """Take in results with which nothing is the matter; if anything is, some may have been taken in and some not."""
        observations, rewards, dtype, shape = self._observations, self._rewards, self._dtype, self._shape
        ndarray, np_false = np.ndarray, np.False_  # there is only one
        for row, result in enumerate(results):
            if type(result) is not tuple or len(result) != 5:
                return False
            observation, reward, terminated, truncated, info = result
            if (
                type(observation) is not ndarray
                or observation.dtype is not dtype
                or observation.shape != shape
                or (type(reward) is not float and type(reward) not in NUMBERS)
                or (terminated is not False and terminated is not np_false)
                or (truncated is not False and truncated is not np_false)
                or type(info) is not dict
                or info
            ):
                return False
            observations[row] = observation
            try:
                rewards[row] = reward
            except ValueError:  # a whole number that is too large
                return False
        for flags in self._flags:
            flags[:] = self._no_flags
        return True


def short_way_of(pool: Pool, layout: Layout, actions: ActionWriter) -> ShortWay | None:
    """The short way, where there is one."""
    backend, leaf = pool.backend, layout.observation
    if not isinstance(backend, SerialBackend) or pool.num_envs > FEW or pool.arena.num_slots > 1:
        return None
    (runner,) = backend.runners
    if isinstance(runner.slice, BatchSlice) or not isinstance(leaf, FixedLeaf) or not leaf.shape:
        return None
    return ShortWay(runner, pool, actions, leaf)
