"""The short way through a step of environments in the caller's own thread.

Where environments are cheap, most of a step's time would go into handing it on: from the face to the pool, the
backend, the runner and the slice, and the results back. Most of the time nothing happens that needs them. What does happen goes
the ordinary way from there: an info, a result that is not quite as it should be, an exception.

Large observations are written once, into the array that the caller gets. The arena gets them when something else than such a
step is asked for, from what environments have returned. (One that has changed that array since, because it raised in the middle
of a step, is then seen with what it has made of it.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shoal.vector.actions import ActionWriter
from shoal.vector.backends.serial import SerialBackend
from shoal.vector.failures import Failure
from shoal.vector.halves import ALL
from shoal.vector.infos import Told
from shoal.vector.layout import Arena, Array, FixedLeaf, Layout
from shoal.vector.messages import NOTHING, Outcome
from shoal.vector.observations import SMALL
from shoal.vector.plain_steps import PlainSteps
from shoal.vector.pool import Pool
from shoal.vector.runner import Runner

PlainStep = tuple[Array, Array, Array, Array, dict[str, Any]]
ShortWay = Callable[[Any], PlainStep | Outcome | None]
"""Steps all environments with a batch of actions; returns what the caller is given, or what has to be looked at first.

``None`` if nobody was stepped, because actions are not good as they are, or somebody wants to know the time."""

LARGE = 2**17  # bytes of observations that are worth no second copy
ndarray, empty = np.ndarray, np.empty


def short_way_of(pool: Pool, layout: Layout, actions: ActionWriter, *, hands_out: bool) -> ShortWay | None:
    """The short way, where there is one. ``hands_out``: whether the caller gets copies of what is in the arena, and no more."""
    backend = pool.backend
    if not isinstance(backend, SerialBackend) or not isinstance(layout.action, FixedLeaf):
        return None
    (runner,) = backend.runners
    plain = runner.share(ALL).plain
    hands_out = hands_out and isinstance(layout.observation, FixedLeaf)
    if plain is None:
        return None
    is_loose = layout.has_loose_observations
    return _short_way(runner, pool.arena, actions, plain, hands_out=hands_out, is_loose=is_loose)


def _short_way(
    runner: Runner, arena: Arena, actions: ActionWriter, plain: PlainSteps, *, hands_out: bool, is_loose: bool
) -> ShortWay:
    its, known = runner.slice, actions.known_numbers()
    number_of = None if known is None else known.__getitem__
    given_dtype, given_shape, is_plain = arena.actions[0].dtype, arena.actions[0].shape, actions.is_plain
    observations = arena.observations[0] if arena.observations else arena.reward  # of which there may be none
    shape, dtype = observations.shape, observations.dtype
    is_large = hands_out and observations.nbytes >= LARGE and observations[0].nbytes > SMALL
    copy_observations, copy_rewards = observations.copy, arena.reward.copy
    copy_terminated, copy_truncated = arena.terminated.copy, arena.truncated.copy

    tells = False  # whether environments had something to tell, so that what they return is looked at in the arena

    def step(actions: Any) -> PlainStep | Outcome | None:
        nonlocal tells
        if its.clock is not None:
            return None
        if number_of is None:
            if not is_plain(actions):
                return None
            # A copy: rows are views, and environments may keep what they are given. Of a type that is only like it, too.
            given = [*actions.astype(given_dtype, order="C")]
        elif (
            type(actions) is ndarray
            and (actions.dtype is given_dtype or actions.dtype == given_dtype)
            and actions.shape == given_shape
        ):
            try:
                given = [*map(number_of, actions.tolist())]
            except KeyError:
                return None
        else:
            return None
        failures: list[Failure] = []
        told: Told = []
        target = empty(shape, dtype) if is_large and not tells else None
        results = plain(given, failures, target, told)
        tells = bool(told)
        if results is not None or tells or is_loose:
            its.write_unwritten()
            return runner.taken_in(runner.rows, results, failures, told)
        if not hands_out:
            return NOTHING
        if target is None:
            target = copy_observations()
        return target, copy_rewards(), copy_terminated(), copy_truncated(), {}

    return step
