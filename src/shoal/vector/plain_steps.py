"""The inside of a step where nothing happens: a few environments are called, and what they return is written down.

Most steps are like that: every environment returns what it should, none of them ends its episode, none has anything to tell.
Then all is done here, in one long function, because around cheap steps every call would be seen. Results of which one is not
plain are handed back as they are, to be taken in with all that can be true of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.vector.batch_slice import BatchSlice
from shoal.vector.failures import Failure
from shoal.vector.layout import Arena, FixedLeaf, Layout, Rows, as_slice
from shoal.vector.slices import FEW, NUMBERS, LoopSlice

ndarray, NP_FALSE = np.ndarray, np.False_  # there is only one


class PlainSteps:
    """Steps some environments of a slice."""

    def __init__(self, its: LoopSlice, rows: Rows, index: slice, arena: Arena, leaf: FixedLeaf) -> None:
        self._slice, self._rows, self._are_all = its, rows, rows is its.rows
        self._places = [row - its.rows.start for row in rows]
        self._numbers = [row + 1 for row in rows]
        self._observations, self._dtype, self._shape = arena.observations[0][index], leaf.dtype, leaf.shape
        # Memory views take single numbers faster than arrays do.
        self._rewards = arena.reward[index].data
        self._flags = [array.view(np.uint8)[index].data for array in (arena.terminated, arena.truncated)]
        self._no_flags = bytes(len(rows))

    def step(self, actions: list[Any], failures: list[Failure]) -> list[Any] | None:
        """Step them; ``None`` if everything is in the arena, else what they returned, which is still to be taken in.

        ``None`` in what they returned stands for one that raised, which is put on ``failures``.
        """
        its = self._slice
        envs, progress = its.envs, its.progress
        if self._are_all:
            its.rounds += 1
        else:
            envs = [envs[place] for place in self._places]
            for place in self._places:
                its.steps[place] += 1
        results: list[Any] = []
        append = results.append
        try:
            for number, env, action in zip(self._numbers, envs, actions, strict=False):
                progress[0] = number
                append(env.step(action))
        except its.caught as error:
            its.go_on_after(error, self._rows, results, actions, failures)
        progress[0] = 0

        observations, rewards, dtype, shape = self._observations, self._rewards, self._dtype, self._shape
        for place, result in enumerate(results):
            if type(result) is not tuple or len(result) != 5:
                return results
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
                return results
            observations[place] = observation
            try:
                rewards[place] = reward
            except ValueError:  # a whole number that is too large
                return results
        terminateds, truncateds = self._flags
        terminateds[:] = truncateds[:] = self._no_flags
        return None


def plain_steps_of(its: LoopSlice | BatchSlice, rows: Rows, arena: Arena, layout: Layout) -> PlainSteps | None:
    """For these environments, where their results are of the kind that can be plain."""
    leaf, index = layout.observation, as_slice(rows)
    if (
        isinstance(its, BatchSlice)
        or its.overlaps
        or not 0 < len(rows) <= FEW
        or index is None
        or arena.num_slots > 1
        or not isinstance(leaf, FixedLeaf)
        or not leaf.shape
    ):
        return None
    return PlainSteps(its, rows, index, arena, leaf)
