"""How the journal stays short: later points from which environments can be brought back.

A reset is such a point if the episode that it begins depends on nothing before it but the random numbers that were noted down.
Most environments are like that, and some are not: running means, curricula, a random generator of their own. So it is
*rehearsed*: a spare worker makes the same environments, begins at the reset, does what they did since, and has to come to the
same results. What passed is relied on from then on, for this worker and for what had been called and set in it.

Where resets are no such points, or episodes take very long, the state of all of a worker's environments is captured instead,
and relied on after a rehearsal too. Where neither works the journal grows, up to a limit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from shoal.vector.backends.base import Recipe
from shoal.vector.journal import TOUCHES, Journal
from shoal.vector.layout import Arena, Rows
from shoal.vector.messages import Replay
from shoal.vector.starts import Start, start_of

logger = logging.getLogger(__name__)

WORTHWHILE_SECONDS = 0.1  # a replay that takes longer is made shorter, where that costs nothing
LONG_SECONDS = 1.0  # a replay that takes longer is worth capturing states for
CAPTURE_SHARE = 0.02  # of the time may be spent on capturing states
MUCH_MEMORY = 2**26
REHEARSED_STEPS = 24  # so many could hardly be the same by chance, even where there is little to see
REHEARSED_ENVS = 8
ATTEMPTS = 3


class Way(Enum):
    """Where a worker's environments can begin."""

    SEEDED = "at a reset with a seed"
    RESETS = "at a reset without a seed"
    CAPTURES = "at a captured state"


@dataclass(frozen=True)
class Rehearsal:
    """What a spare worker tries."""

    worker: int
    recipe: Recipe
    replay: Replay
    way: Way


@dataclass
class Habits:
    """What is known of one worker's environments."""

    relies_on: set[Way] = field(default_factory=set)
    """What has passed a rehearsal."""
    touched: frozenset[str] = frozenset()
    """What had been called and set when the resets passed."""
    candidate: tuple[int, bytes] | None = None
    """A captured state that has not been rehearsed yet, and after which command."""
    proposed: dict[Way, dict[int, Start]] = field(default_factory=dict)
    """Resets that have not been rehearsed yet."""
    capture_seconds: float = 0.0
    """How long it took to capture them."""
    refused: dict[Way, str] = field(default_factory=dict)
    """What has not passed, and why."""
    failed: int = 0
    """How many rehearsals have ended without a verdict."""


class Shortener:
    """Decides, from time to time, what can be dropped."""

    def __init__(self, journal: Journal, recipes: list[Recipe], capture: Callable[[int], bytes | str | None]) -> None:
        self._journal = journal
        self._recipes = recipes
        self._capture = capture
        self._habits = [Habits() for _ in recipes]
        self.arena: Arena

    def look_at(self, worker: int) -> Rehearsal | None:
        """Shorten the history of a worker that has nothing to do, or say what has to be rehearsed first."""
        journal, habits = self._journal, self._habits[worker]
        if journal.replay_seconds(worker) < WORTHWHILE_SECONDS and journal.nbytes < MUCH_MEMORY:
            return None
        if not self._touched(worker) <= habits.touched:
            habits.relies_on -= {Way.SEEDED, Way.RESETS}
        for way, candidates in self._candidates(worker).items():
            if way in habits.relies_on:
                journal.begin_from(candidates)
            elif way not in habits.refused and (rehearsal := self._rehearse_resets(worker, way, candidates)):
                return rehearsal
        is_worth_it = journal.replay_seconds(worker) >= max(LONG_SECONDS, habits.capture_seconds / CAPTURE_SHARE)
        if not is_worth_it or Way.CAPTURES in habits.refused:
            return None
        if habits.candidate is not None:
            return self._rehearse_capture(worker, habits.candidate)
        self._take_capture(worker, habits)
        return None

    def known(self, worker: int, way: Way) -> str | None:
        """What a rehearsal of this way has come to: nothing, or a difference; ``None`` if there has been none."""
        habits = self._habits[worker]
        return "" if way in habits.relies_on else habits.refused.get(way)

    def propose(self, worker: int, way: Way) -> Rehearsal | None:
        """What would have to be rehearsed for this way, if there is anything to rehearse yet."""
        if way is Way.CAPTURES:
            candidate = self._habits[worker].candidate
            return None if candidate is None else self._rehearse_capture(worker, candidate)
        candidates = self._candidates(worker).get(way) or self._habits[worker].proposed.get(way)
        return None if candidates is None else self._rehearse_resets(worker, way, candidates)

    def try_capture(self, worker: int) -> str:
        """Note where a worker's environments are, to rehearse it later; returns why they cannot be captured, or nothing."""
        for way, candidates in self._candidates(worker).items():
            self._remembered(worker, way, candidates)
        state = self._capture(worker)
        if isinstance(state, bytes):
            self._habits[worker].candidate = self._journal.last_sequence, state
            return ""
        return state or "its worker died"

    def conclude(self, rehearsal: Rehearsal, difference: str | None) -> None:
        """A rehearsal has ended, without a difference or with one; ``None`` if the spare worker died in it."""
        worker, habits = rehearsal.worker, self._habits[rehearsal.worker]
        if difference is None:
            habits.failed += 1
            difference = "workers die when they try" if habits.failed > ATTEMPTS else None
            if difference is None:
                return
        if difference:
            habits.refused[rehearsal.way] = difference
            if rehearsal.way is Way.CAPTURES:
                habits.candidate = None
            logger.debug("environments of worker %d cannot begin %s: %s", worker, rehearsal.way.value, difference)
            return
        logger.debug("environments of worker %d can begin %s", worker, rehearsal.way.value)
        habits.relies_on.add(rehearsal.way)
        if rehearsal.way is not Way.CAPTURES:
            habits.touched = self._touched(worker)
        elif habits.candidate is not None:
            self._journal.rest_on(worker, *habits.candidate)
            habits.candidate = None

    def _candidates(self, worker: int) -> dict[Way, dict[int, Start]]:
        """The last resets of this worker's environments, by kind, where that would shorten anything."""
        journal = self._journal
        found: dict[Way, dict[int, Start]] = {}
        rows = self._recipes[worker].rows
        for row, words in zip(rows, self.arena.origins[rows.start : rows.stop].tolist(), strict=True):
            known = journal.starts.get(row)
            if words[1] >= 1 and (known is None or words[0] > known.sequence):
                start = start_of(words)
                found.setdefault(Way.SEEDED if start.is_seeded else Way.RESETS, {})[row] = start
        return found

    def _touched(self, worker: int) -> frozenset[str]:
        return frozenset(self._journal.touched.get(worker, ()))

    def _remembered(self, worker: int, way: Way, candidates: dict[int, Start]) -> dict[int, Start]:
        """The resets that were candidates when this was first asked: by now there are steps to compare, perhaps episodes."""
        journal, proposed = self._journal, self._habits[worker].proposed
        oldest = next((one.sequence for one in journal.rounds if one.op not in TOUCHES), 0)
        valid = {
            row: start
            for row, start in proposed.get(way, {}).items()
            if start.sequence >= max(oldest, journal.floor(row))
        }
        if not valid:
            # A reset proves nothing if nothing has happened before that it could have kept.
            valid = proposed[way] = {
                row: start
                for row, start in candidates.items()
                if journal.steps_before(row, worker, start.sequence) >= REHEARSED_STEPS
            }
        return valid

    def _rehearse_resets(self, worker: int, way: Way, candidates: dict[int, Start]) -> Rehearsal | None:
        journal, recipe = self._journal, self._recipes[worker]
        candidates = self._remembered(worker, way, candidates)
        steps = journal.telling_steps(worker, {row: start.sequence for row, start in candidates.items()})
        old_enough = {row: start for row, start in candidates.items() if steps[row] >= REHEARSED_STEPS}
        if not old_enough:
            return None
        rows: range = recipe.rows
        if all(env_fn is recipe.env_fns[0] for env_fn in recipe.env_fns):
            longest = max(old_enough, key=lambda row: steps[row])
            first = max(rows.start, min(longest, rows.stop - REHEARSED_ENVS))
            rows = range(first, min(first + REHEARSED_ENVS, rows.stop))
        only: Rows = [row for row in rows if row in old_enough]
        env_fns = recipe.env_fns[rows.start - recipe.rows.start : rows.stop - recipe.rows.start]
        replay = journal.replay(worker, {**journal.starts, **old_enough}, only=only)
        return Rehearsal(worker, replace(recipe, rows=rows, env_fns=env_fns), replay._replace(base=None), way)

    def _take_capture(self, worker: int, habits: Habits) -> None:
        began = time.perf_counter()
        state = self._capture(worker)
        habits.capture_seconds = time.perf_counter() - began
        if state is None:
            return
        if isinstance(state, str):
            habits.refused[Way.CAPTURES] = state
            logger.debug("the environments of worker %d cannot be captured: %s", worker, state)
            return
        sequence = self._journal.last_sequence
        if Way.CAPTURES in habits.relies_on:
            self._journal.rest_on(worker, sequence, state)
        else:
            habits.candidate = sequence, state

    def _rehearse_capture(self, worker: int, candidate: tuple[int, bytes]) -> Rehearsal | None:
        steps = self._journal.telling_steps(worker, dict.fromkeys(self._recipes[worker].rows, candidate[0]))
        if max(steps.values(), default=0) < REHEARSED_STEPS:
            return None
        replay = self._journal.replay(worker, base=candidate)
        return Rehearsal(worker, self._recipes[worker], replay, Way.CAPTURES)
