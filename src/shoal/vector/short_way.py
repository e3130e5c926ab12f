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
from shoal.vector.layout import Array, FixedLeaf, Layout
from shoal.vector.messages import NOTHING, Outcome
from shoal.vector.pool import Pool
from shoal.vector.runner import Runner
from shoal.vector.slices import FEW, NUMBERS

PlainStep = tuple[Array, Array, Array, Array, dict[str, Any]]
ndarray, NP_FALSE = np.ndarray, np.False_  # there is only one


class ShortWay:
    """Steps all environments of a runner."""

    def __init__(self, runner: Runner, pool: Pool, actions: ActionWriter, leaf: FixedLeaf, *, hands_out: bool) -> None:
        self._runner, self._slice = runner, runner.slice
        self._actions, known = actions, actions.known_numbers()
        self._number = None if known is None else known.__getitem__
        arena = pool.arena
        self._given_dtype, self._given_shape = arena.actions[0].dtype, arena.actions[0].shape
        self._observations, self._dtype, self._shape = arena.observations[0], leaf.dtype, leaf.shape
        self._rewards = arena.reward.data
        self._flags = [array.data.cast("B") for array in (arena.terminated, arena.truncated)]
        self._no_flags = bytes(pool.num_envs)
        self._copies = [array.copy for array in (self._observations, arena.reward, arena.terminated, arena.truncated)]
        self._hands_out = hands_out

    def step(self, actions: Any) -> PlainStep | Outcome | None:
        """Step all environments: what the caller is given, or what has to be looked at first.

        ``None`` if nobody was stepped, because actions are not good as they are, somebody has to be reset instead, or wants to
        know the time. It is one long function because here every call would be seen.
        """
        its = self._slice
        if its.due or its.clock is not None:
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
        results: list[Any] = []
        append = results.append
        its.rounds += 1
        try:
            for env, action in zip(its.envs, given, strict=False):
                append(env.step(action))
        except Exception as error:
            its.go_on_after(error, results, given, failures)

        observations, rewards, dtype, shape = self._observations, self._rewards, self._dtype, self._shape
        for row, result in enumerate(results):
            if type(result) is not tuple or len(result) != 5:
                break
            observation, reward, terminated, truncated, info = result
            if (
                type(observation) is not ndarray
                or observation.dtype is not dtype
                or observation.shape != shape
                or (type(reward) is not float and type(reward) not in NUMBERS)
                or (terminated is not False and terminated is not NP_FALSE)
                or (truncated is not False and truncated is not NP_FALSE)
                or type(info) is not dict
                or info
            ):
                break
            observations[row] = observation
            try:
                rewards[row] = reward
            except ValueError:  # a whole number that is too large
                break
        else:
            terminateds, truncateds = self._flags
            terminateds[:] = truncateds[:] = self._no_flags
            if not self._hands_out:
                return NOTHING
            copy_observations, copy_rewards, copy_terminated, copy_truncated = self._copies
            return copy_observations(), copy_rewards(), copy_terminated(), copy_truncated(), {}

        # Some may have been taken in and some not: all of them go the ordinary way.
        outcome = Outcome([], [], failures, [])
        self._runner.take_steps(results, outcome)
        return outcome


def short_way_of(pool: Pool, layout: Layout, actions: ActionWriter, *, hands_out: bool) -> ShortWay | None:
    """The short way, where there is one. ``hands_out``: whether the caller gets copies of what is in the arena, and no more."""
    backend, leaf = pool.backend, layout.observation
    if not isinstance(backend, SerialBackend) or pool.num_envs > FEW or pool.arena.num_slots > 1:
        return None
    (runner,) = backend.runners
    if (
        isinstance(runner.slice, BatchSlice)
        or runner.slice.overlaps
        or not isinstance(leaf, FixedLeaf)
        or not leaf.shape
    ):
        return None
    return ShortWay(runner, pool, actions, leaf, hands_out=hands_out)
