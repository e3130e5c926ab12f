"""The inside of a step where nothing happens: environments are called, and what they return is written down.

Most steps are like that: every environment returns what it should. With autoreset in the next step, an episode may end too:
it is only noted which environments are due. These are reset before the others are stepped, and a ``Begun`` takes the place of
each, so that all are still stepped together. All this is done here, in one long function whose names are all its own, because
around cheap steps every call and every look at an attribute would be seen. As soon as one of them is not plain the others are
called in the ordinary way, and all results are handed back, to be taken in with all that can be true of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from shoal.vector.batch_slice import BatchSlice
from shoal.vector.contract import NUMBERS
from shoal.vector.failures import Failure
from shoal.vector.infos import Told
from shoal.vector.layout import Arena, Array, FixedLeaf, Layout, Rows, as_slice
from shoal.vector.observations import SMALL
from shoal.vector.slices import LoopSlice

BOOLS = frozenset((bool, np.bool_))
NO_ENDS = (False, False)
ndarray, frombuffer = np.ndarray, np.frombuffer
NP_FALSE = np.False_  # there is only one

Ends = dict[int, tuple[bool, bool]]
"""The flags of those environments whose episode has ended."""

PlainSteps = Callable[[list[Any], list[Failure], Array | None, Told], list[Any] | None]
"""Takes an action for each environment, a list for failures, an array for the observations if they are not to be written
into the arena, and a list for infos. Returns ``None`` if everything is written down and only infos are to be taken in, else
what environments returned, all of which is still to be taken in; ``None`` therein stands for one that raised, which is on the
list of failures."""


def plain_steps_of(
    its: LoopSlice | BatchSlice, rows: Rows, arena: Arena, layout: Layout, mode: AutoresetMode
) -> PlainSteps | None:
    """What steps these environments, where their results are of the kind that can be plain.

    Those that overlap are stepped only: none of them may be due.
    """
    leaf, index = layout.observation, as_slice(rows)
    if isinstance(its, BatchSlice) or (its.overlaps and its.only_lanes is None) or index is None or arena.num_slots > 1:
        return None
    if isinstance(leaf, FixedLeaf) and leaf.shape:
        if its.overlaps:
            return _overlapping_steps(its, rows, index, arena, leaf)
        return _plain_steps(its, rows, index, arena, leaf, mode)
    return _plain_steps(its, rows, index, arena, None, mode) if isinstance(rows, range) and not its.overlaps else None


def _plain_steps(
    its: LoopSlice, rows: Rows, index: slice, arena: Arena, leaf: FixedLeaf | None, mode: AutoresetMode
) -> PlainSteps:
    """For observations that are one array (``leaf``), or anything else, which is looked at when all are there."""
    dtype, shape = (None, None) if leaf is None else (leaf.dtype, leaf.shape)
    first = its.rows.start
    places = None if rows is its.rows else [row - first for row in rows]
    chosen = slice(index.start - first, index.stop - first, index.step)
    all_observations = arena.observations[0][index] if leaf is not None else arena.reward  # which is looked at nowhere
    # Small observations are put together as bytes, which is quicker than one after the other.
    is_small, all_shape = all_observations[0].nbytes <= SMALL, all_observations.shape
    are_neighbours = all_observations.flags.c_contiguous
    as_bytes = all_observations.reshape(-1).view(np.uint8).data if is_small and are_neighbours else None
    # Memory views take numbers faster than arrays do.
    rewards: Any = arena.reward.data
    terminated_at: Any = arena.terminated.data
    truncated_at: Any = arena.truncated.data
    # In the other modes an end needs more: a reset at once, or the caller's to be waited for.
    ends_are_plain = mode is AutoresetMode.NEXT_STEP
    progress = its.progress
    terminateds, truncateds = (flags.view(np.uint8)[index].data for flags in (arena.terminated, arena.truncated))
    no_flags = bytes(len(rows))

    def step(actions: list[Any], failures: list[Failure], target: Array | None, told: Told) -> list[Any] | None:
        if places is None:
            envs = its.envs
            its.rounds += 1
        else:
            envs, steps = its.envs[chosen], its.steps
            for place in places:
                steps[place] += 1
        if its.due:
            envs = its.begin_due(rows, envs, failures)
        observations: list[Any] = []
        ended: Ends = {}
        is_plain = True
        try:
            # Without `strict`, which takes longer to be said than a cheap environment takes for its step.
            for row, env, action in zip(rows, envs, actions):  # noqa: B905
                progress[0] = row + 1
                result: Any = env.step(action)
                try:
                    observation, reward, terminated, truncated, info = result
                except (TypeError, ValueError):
                    is_plain = False
                    break
                if (
                    (
                        (
                            (terminated is False or terminated is NP_FALSE)
                            and (truncated is False or truncated is NP_FALSE)
                        )
                        or is_plain_end(row, terminated, truncated, ended)
                    )
                    and type(info) is dict
                    and (type(reward) is float or type(reward) in NUMBERS)
                    and (
                        dtype is None
                        or (
                            type(observation) is ndarray
                            and (observation.dtype is dtype or observation.dtype == dtype)  # which is slower
                            and observation.shape == shape
                        )
                    )
                ):
                    try:
                        rewards[row] = reward
                        observations.append(observation)
                        if info:
                            told.append((row, info))
                        continue
                    except ValueError:  # a whole number that is too large
                        pass
                # What was taken apart is put together again: it may have been an iterator.
                result, is_plain = (observation, reward, terminated, truncated, info), False
                break
        except BaseException as error:
            results = put_together(observations, ended, told)
            its.go_on_after(error, rows, envs, results, actions, failures)
            return results
        if not is_plain:
            results = [*put_together(observations, ended, told), result]
            its.go_on_with(rows, envs, results, actions, failures)
            return results
        progress[0] = 0
        if dtype is None and not its.writer.write_together(rows, observations):  # type: ignore[arg-type]
            return put_together(observations, ended, told)
        terminateds[:] = truncateds[:] = no_flags
        if ended:
            for row, (terminated, truncated) in ended.items():
                its.due.add(row)
                terminated_at[row], truncated_at[row] = terminated, truncated
        if dtype is None:
            return None
        if target is None:
            if is_small:
                try:
                    joined = b"".join(observations)
                except TypeError:  # an array with gaps
                    pass
                else:
                    if as_bytes is not None:
                        as_bytes[:] = joined
                    else:
                        all_observations[:] = frombuffer(joined, dtype).reshape(all_shape)
                    return None
            target = all_observations
        else:
            its.unwritten = observations
        for place, observation in enumerate(observations):
            target[place] = observation
        return None

    def is_plain_end(row: int, terminated: Any, truncated: Any, ended: Ends) -> bool:
        """Whether these flags are good as they are, and nothing more is to be done in this step; it is noted then."""
        if not ends_are_plain or type(terminated) not in BOOLS or type(truncated) not in BOOLS:
            return False
        ended[row] = terminated, truncated
        return True

    def put_together(observations: list[Any], ended: Ends, told: Told) -> list[Any]:
        """What those who were plain have returned."""
        infos = dict(told)
        told.clear()
        return [
            (observation, rewards[row], *ended.get(row, NO_ENDS), infos.get(row, {}))
            for row, observation in zip(rows, observations, strict=False)
        ]

    return step


def _overlapping_steps(its: LoopSlice, rows: Rows, index: slice, arena: Arena, leaf: FixedLeaf) -> PlainSteps:
    """The same for environments that wait, each on a thread of its own, where each is looked at while others wait.

    Observations are written when all are there: if the process ends before that, what was last seen is still known.
    """
    dtype, shape, lanes = leaf.dtype, leaf.shape, its.only_lanes
    assert lanes is not None
    places = range(rows[0] - its.rows.start, rows[-1] + 1 - its.rows.start, index.step)
    all_observations, rewards = arena.observations[0][index], arena.reward[index].data
    terminateds, truncateds = (flags.view(np.uint8)[index].data for flags in (arena.terminated, arena.truncated))
    no_flags = bytes(len(rows))

    def step(actions: list[Any], failures: list[Failure], target: Array | None, told: Told) -> list[Any] | None:
        assert target is None, "only environments in the caller's own process write elsewhere"
        envs = [its.envs[place] for place in places]
        if rows is its.rows:
            its.rounds += 1
        else:
            for place in places:
                its.steps[place] += 1
        observations: list[Any] = [None] * len(rows)
        others: dict[int, Any] = {}  # results that are not plain

        def do(number: int) -> None:
            try:
                result: Any = envs[number].step(actions[number])
            except BaseException as error:
                its.note_failure(error, rows[number], actions[number], failures)
                result = None
            if type(result) is tuple and len(result) == 5:  # nothing else is taken apart: there is time enough
                observation, reward, terminated, truncated, info = result
                if (
                    (terminated is False or terminated is NP_FALSE)
                    and (truncated is False or truncated is NP_FALSE)
                    and type(info) is dict
                    and not info
                    and type(reward) in NUMBERS
                    and type(observation) is ndarray
                    and observation.dtype == dtype
                    and observation.shape == shape
                ):
                    try:
                        rewards[number] = reward
                        observations[number] = observation
                        return
                    except ValueError:  # a whole number that is too large
                        pass
            others[number] = result

        # Of several that are at work at the same time, nobody can say which one ends the process.
        its.progress[0] = rows[0] + 1 if len(rows) == 1 else 0
        lanes.do_all(places, do)
        its.progress[0] = 0
        failures.sort(key=lambda failure: failure.env_index)  # not in the order in which threads happened to run
        if others:
            return [
                others[number] if number in others else (observation, rewards[number], False, False, {})
                for number, observation in enumerate(observations)
            ]
        terminateds[:] = truncateds[:] = no_flags
        for number, observation in enumerate(observations):
            all_observations[number] = observation
        return None

    return step
