"""How the journal stays short: later points from which environments can be brought back.

A reset is such a point if the episode that it begins depends on nothing before it but the random numbers that were noted down.
Most environments are like that, and some are not: running means, curricula, a random generator of their own. So it is
*rehearsed*: a spare worker makes the same environments, begins at the reset, does what they did since, and has to come to the
same results. What passed is relied on from then on, for all workers with the same kind of environments, and for what had been
called and set in them.

Where resets are no such points, or episodes take very long, the state of all of a worker's environments is captured instead,
and relied on after a rehearsal too. Where neither works the journal grows, up to a limit.

A rehearsal takes processors from everybody else. So it is a sample: some environments, as many steps as tell something.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from enum import Enum
from types import FunctionType
from typing import Any

from shoal.vector.journal import Journal
from shoal.vector.layout import Arena, loose_leaves
from shoal.vector.messages import Attachment, Recipe, Replay
from shoal.vector.rounds import TOUCHES
from shoal.vector.starts import Start, start_of

logger = logging.getLogger(__name__)

WORTHWHILE_SECONDS = 0.1  # a replay that takes longer is made shorter, where that costs nothing
LONG_SECONDS = 1.0  # a replay that takes longer is worth capturing states for
CAPTURE_SHARE = 0.01  # of the time may be spent on capturing states, of one worker after the other
MUCH_MEMORY = 2**26
SOME_MEMORY = 2**22  # by which the journal has to grow before it is looked at once more only because it is large
REHEARSED_STEPS = 24  # so many could hardly be the same by chance, even where there is little to see
REHEARSED_ENVS = 4
REHEARSED_SECONDS = 0.02  # of work, where that is more than these
FAST_GROWTH = 2**25  # bytes of journal a second from which on there is no time to let others go first
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
    leaves_out_some: bool = False
    """Whether it is of some of the worker's environments only."""


@dataclass
class Habits:
    """What is known of environments of one kind."""

    relies_on: set[Way] = field(default_factory=set)
    """What has passed a rehearsal."""
    touched: frozenset[str] = frozenset()
    """What had been called and set when the resets passed."""
    refused: dict[Way, str] = field(default_factory=dict)
    """What has not passed, and why."""
    failed: int = 0
    """How many rehearsals have ended without a verdict."""
    share_something: bool = False
    """Whether a captured state did not do for some of a worker's environments alone."""


@dataclass
class Notes:
    """What has been seen of one worker's environments."""

    looked_at: float = float("-inf")
    """When, in seconds of work ..."""
    nbytes: int = 0
    """... and how much memory the journal took then."""
    candidate: tuple[int, bytes] | None = None
    """A captured state that has not been rehearsed yet, and after which command."""
    proposed: dict[Way, dict[int, Start]] = field(default_factory=dict)
    """Resets that have not been rehearsed yet."""
    capture_seconds: float = 0.0
    """How long it took to capture them."""


class Shortener:
    """Decides, from time to time, what can be dropped."""

    def __init__(self, journal: Journal, recipes: list[Recipe], capture: Callable[[int], bytes | str | None]) -> None:
        self._journal = journal
        self._recipes = recipes
        self._capture = capture
        self._kinds = [frozenset(map(kind_of, recipe.env_fns)) for recipe in recipes]
        habits = {kinds: Habits() for kinds in self._kinds}
        self._habits = [habits[kinds] for kinds in self._kinds]
        self._notes = [Notes() for _ in recipes]
        self.is_lenient = False
        """Whether what is kept is only for moving, where everything is compared: then nothing has to be rehearsed before."""
        self.arena: Arena
        self._takes_texts = False

    def attach(self, attachment: Attachment, arena: Arena) -> None:
        """Say what environments are given, and where they write down how episodes begin."""
        self.arena, self._takes_texts = arena, any(True for _ in loose_leaves(attachment.layout.action))

    def adopt(self, other: Shortener) -> None:
        """Know what another one has found out about environments of the same kinds."""
        known = dict(zip(other._kinds, other._habits, strict=True))
        self._habits = [known.get(kinds, its) for kinds, its in zip(self._kinds, self._habits, strict=True)]

    def is_due(self, worker: int) -> bool:
        """Whether the history of this worker is long, and has not been looked at for a while."""
        journal = self._journal
        nbytes, notes = journal.rounds.nbytes, self._notes[worker]
        if nbytes >= MUCH_MEMORY and abs(nbytes - notes.nbytes) >= SOME_MEMORY:
            return True
        # To look at thousands of environments takes milliseconds. What is kept for moving need not be as short as possible.
        worthwhile = LONG_SECONDS if self.is_lenient else WORTHWHILE_SECONDS
        if journal.seconds - notes.looked_at < worthwhile / 2:
            return False
        return journal.replay_seconds(worker) >= worthwhile or nbytes >= MUCH_MEMORY

    def look_at(self, worker: int) -> Rehearsal | None:
        """Shorten the history of a worker that has nothing to do, or say what has to be rehearsed first."""
        journal, habits, notes = self._journal, self._habits[worker], self._notes[worker]
        notes.looked_at, notes.nbytes = journal.seconds, journal.rounds.nbytes
        for way, candidates in self._candidates(worker).items():
            if self.is_lenient or (way in habits.relies_on and self._touched(worker) <= habits.touched):
                journal.begin_from(candidates)
            elif way not in habits.refused and (rehearsal := self._rehearse_resets(worker, way, candidates)):
                return rehearsal
        if self.is_lenient:
            return None
        capturing = notes.capture_seconds * len(self._recipes)
        is_worth_it = journal.replay_seconds(worker) >= max(LONG_SECONDS, capturing / CAPTURE_SHARE)
        # Long texts as actions take much memory in little time, and repeating them is quick.
        is_worth_it |= self._takes_texts and journal.rounds.nbytes >= MUCH_MEMORY
        if not is_worth_it or Way.CAPTURES in habits.refused:
            return None
        if notes.candidate is not None and Way.CAPTURES not in habits.relies_on:
            return self._rehearse_capture(worker, notes.candidate)
        self._take_capture(worker)
        return None

    def known(self, worker: int, way: Way) -> str | None:
        """What a rehearsal of this way has come to: nothing, or a difference; ``None`` if there has been none."""
        habits = self._habits[worker]
        return "" if way in habits.relies_on else habits.refused.get(way)

    def propose(self, worker: int, way: Way) -> Rehearsal | None:
        """What would have to be rehearsed for this way, if there is anything to rehearse yet: everything."""
        if way is Way.CAPTURES:
            candidate = self._notes[worker].candidate
            return None if candidate is None else self._rehearse_capture(worker, candidate, thoroughly=True)
        candidates = self._candidates(worker).get(way) or self._notes[worker].proposed.get(way)
        return None if candidates is None else self._rehearse_resets(worker, way, candidates, thoroughly=True)

    def try_capture(self, worker: int) -> str:
        """Note where a worker's environments are, to rehearse it later; returns why they cannot be captured, or nothing."""
        for way, candidates in self._candidates(worker).items():
            self._remembered(worker, way, candidates)
        state = self._capture(worker)
        if isinstance(state, bytes):
            self._notes[worker].candidate = self._journal.last_sequence, state
            return ""
        return state or "its worker died"

    def conclude(self, rehearsal: Rehearsal, difference: str | None) -> None:
        """A rehearsal has ended, without a difference or with one; ``None`` if the spare worker died in it."""
        worker, habits, notes = rehearsal.worker, self._habits[rehearsal.worker], self._notes[rehearsal.worker]
        if difference is None:
            habits.failed += 1
            difference = "workers die when they try" if habits.failed > ATTEMPTS else None
            if difference is None:
                return
        if difference and rehearsal.way is Way.CAPTURES and rehearsal.leaves_out_some:
            habits.share_something = True  # perhaps: a rehearsal of all will tell
            return
        if difference:
            habits.refused[rehearsal.way] = difference
            notes.candidate = None if rehearsal.way is Way.CAPTURES else notes.candidate
            logger.debug("environments of worker %d cannot begin %s: %s", worker, rehearsal.way.value, difference)
            return
        logger.debug("environments of worker %d can begin %s", worker, rehearsal.way.value)
        habits.relies_on.add(rehearsal.way)
        if rehearsal.way is not Way.CAPTURES:
            habits.touched |= self._touched(worker)
        elif notes.candidate is not None:
            self._journal.rest_on(worker, *notes.candidate)
            notes.candidate = None

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

    def last_resets(self) -> dict[int, Start]:
        """The last reset of each environment that has ended an episode; nobody says whether it is a beginning."""
        return {
            row: start
            for worker in range(len(self._recipes))
            for candidates in self._candidates(worker).values()
            for row, start in candidates.items()
        }

    def _touched(self, worker: int) -> frozenset[str]:
        return frozenset(self._journal.touched.get(worker, ()))

    def _remembered(self, worker: int, way: Way, candidates: dict[int, Start]) -> dict[int, Start]:
        """The resets that were candidates when this was first asked: by now there are steps to compare, perhaps episodes."""
        journal, proposed = self._journal, self._notes[worker].proposed
        oldest = next((one.sequence for one in journal.rounds if one.op not in TOUCHES), 0)
        valid = {
            row: start
            for row, start in proposed.get(way, {}).items()
            if start.sequence >= max(oldest, journal.floor(row))
        }
        if not valid:
            # A reset proves nothing if nothing has happened before that it could have kept.
            sequences = {row: start.sequence for row, start in candidates.items()}
            old_enough = journal.have_stepped(worker, sequences, REHEARSED_STEPS)
            valid = proposed[way] = {row: start for row, start in candidates.items() if row in old_enough}
        return valid

    def _rehearse_resets(
        self, worker: int, way: Way, candidates: dict[int, Start], *, thoroughly: bool = False
    ) -> Rehearsal | None:
        journal = self._journal
        candidates = self._remembered(worker, way, candidates)
        enough = None if thoroughly else self._affordable(worker, min(REHEARSED_ENVS, len(self._recipes[worker].rows)))
        steps = journal.telling_steps(worker, {row: start.sequence for row, start in candidates.items()}, enough)
        steps = {row: its for row, its in steps.items() if len(its) >= REHEARSED_STEPS}
        if not steps:
            return None
        rows, until = self._recipes[worker].rows, {}
        if not thoroughly:
            rows = self._some_of(worker, max(steps, key=lambda row: len(steps[row])))
            enough = self._affordable(worker, len(rows))
            until = {row: its[:enough][-1] for row, its in steps.items()}
        only = [row for row in rows if row in steps]
        starts = {**journal.starts, **{row: candidates[row] for row in only}}
        replay = journal.replay(worker, starts, only=only, until=until)
        return self._rehearsal(worker, rows, replay._replace(base=None), way, thoroughly=thoroughly)

    def _rehearsal(self, worker: int, rows: range, replay: Replay, way: Way, *, thoroughly: bool) -> Rehearsal:
        """In nobody's way, unless somebody waits for it, or the journal would be too long before it is over."""
        has_time = not thoroughly and self._journal.bytes_per_second() < FAST_GROWTH
        recipe = self._recipes[worker]
        its = slice(rows.start - recipe.rows.start, rows.stop - recipe.rows.start)
        recipe = replace(recipe, rows=rows, env_fns=recipe.env_fns[its], lets_others_go_first=has_time)
        leaves_out_some = way is Way.CAPTURES and rows != self._recipes[worker].rows
        return Rehearsal(worker, recipe, replay._replace(gives_way=has_time), way, leaves_out_some)

    def _affordable(self, worker: int, num_envs: int) -> int:
        """How many steps of so many environments are rehearsed."""
        seconds = self._journal.seconds_of_step(worker)
        return max(REHEARSED_STEPS, int(REHEARSED_SECONDS / max(seconds * num_envs, 1e-9)))

    def _some_of(self, worker: int, row: int) -> range:
        """This environment and some of its neighbours, if they are all of a kind; otherwise all."""
        rows = self._recipes[worker].rows
        if len(self._kinds[worker]) > 1:
            return rows
        first = max(rows.start, min(row, rows.stop - REHEARSED_ENVS))
        return range(first, min(first + REHEARSED_ENVS, rows.stop))

    def _take_capture(self, worker: int) -> None:
        habits, notes = self._habits[worker], self._notes[worker]
        began = time.perf_counter()
        state = self._capture(worker)
        notes.capture_seconds = time.perf_counter() - began
        if state is None:
            return
        if isinstance(state, str):
            habits.refused[Way.CAPTURES] = state
            logger.debug("the environments of worker %d cannot be captured: %s", worker, state)
            return
        sequence = self._journal.last_sequence
        if Way.CAPTURES in habits.relies_on:
            self._journal.rest_on(worker, sequence, state)
            notes.candidate = None
        else:
            notes.candidate = sequence, state

    def _rehearse_capture(
        self, worker: int, candidate: tuple[int, bytes], *, thoroughly: bool = False
    ) -> Rehearsal | None:
        journal, rows = self._journal, self._recipes[worker].rows
        enough = None if thoroughly else self._affordable(worker, min(REHEARSED_ENVS, len(rows)))
        steps = journal.telling_steps(worker, dict.fromkeys(rows, candidate[0]), enough)
        longest = max(rows, key=lambda row: len(steps[row]))
        if len(steps[longest]) < REHEARSED_STEPS:
            return None
        if thoroughly:
            replay = journal.replay(worker, base=candidate)
            return self._rehearsal(worker, rows, replay, Way.CAPTURES, thoroughly=True)
        some = rows if self._habits[worker].share_something else self._some_of(worker, longest)
        last = steps[longest][: self._affordable(worker, len(some))][-1]
        replay = journal.replay(worker, base=candidate, only=some, until=dict.fromkeys(some, last))
        replay = replay._replace(first=some.start - rows.start)
        return self._rehearsal(worker, some, replay, Way.CAPTURES, thoroughly=False)


def kind_of(env_fn: Any) -> Hashable:
    """The same for factories that make the same: one object, or functions from one place with the same values in them."""
    if isinstance(env_fn, functools.partial):
        values = [*env_fn.args, *env_fn.keywords.values()]
        return kind_of(env_fn.func), tuple(env_fn.keywords), *map(_identity, values)
    if isinstance(env_fn, FunctionType):
        values = [*(env_fn.__defaults__ or ()), *(env_fn.__kwdefaults__ or {}).values()]
        return env_fn.__code__, *map(_identity, values), *(_identity_of_cell(cell) for cell in env_fn.__closure__ or ())
    return id(env_fn)


def _identity(value: Any) -> Hashable:
    return (type(value), value) if isinstance(value, str | int | float | bool | None) else id(value)


def _identity_of_cell(cell: Any) -> Hashable:
    try:
        return _identity(cell.cell_contents)
    except ValueError:  # it is empty
        return id(cell)
