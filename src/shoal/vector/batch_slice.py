"""A slice of a batched world: its environments are rows of one array.

A whole step, autoreset included, is one call. Whatever else can be asked of environments (tasks, calls, being brought back)
is done row by row as for any others, because each row is an environment too.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, MutableSet
from typing import Any

import numpy as np

from shoal.vector.batched import SAME_STEP, MakeRows
from shoal.vector.contract import census_of
from shoal.vector.crowd import Progress
from shoal.vector.failures import Failure
from shoal.vector.infos import Columns, by_environment
from shoal.vector.layout import Arena, Array, Rows
from shoal.vector.messages import EnvFn, Outcome
from shoal.vector.observations import ObservationWriter
from shoal.vector.slices import Counters, Finished, LoopSlice
from shoal.vector.starts import KNOWN, SEEDED, WORD, Past, Start, quiet_seed
from shoal.vector.step_clock import UNTIMED
from shoal.vector.tasks import TaskSource

ALL = slice(None)


class BatchSlice(LoopSlice):
    """Rows that are stepped together."""

    def __init__(self, rows: range, make_rows: MakeRows, progress: Progress, *, in_process: bool) -> None:
        super().__init__(rows, progress, in_process=in_process)
        self._make_rows = make_rows
        self._interrupted: set[int] = set()
        """Places whose next step says that an episode was lost, or whose next reset is special because of that."""

    def construct(self, env_fns: Iterable[EnvFn], entropy: int | None, outcome: Outcome) -> None:
        """Make all rows, and report what they are like."""
        self.progress[0] = self.rows.start + 1
        try:
            self._batch = self._make_rows(len(self.rows))
            self.envs = [self._batch.env(place) for place in range(len(self.rows))]
            if entropy is not None:
                for place, row in enumerate(self.rows):
                    self._batch.renew(place, quiet_seed(entropy, row))
            census = census_of(self.envs[0])
            outcome.values.extend((row, census) for row in self.rows)
            self.due = DueRows(self.rows, self._batch.state.is_due)
        except BaseException as error:
            self._let_pass(error)
            outcome.failures.append(Failure.of(error, env_index=self.rows.start, phase="construct"))
        self.progress[0] = 0

    def attach(self, arena: Arena, writer: ObservationWriter, task_source: TaskSource | None) -> None:
        """Say where results go and where tasks come from."""
        self._fits = len(arena.observations) == len(arena.actions) == 1
        if self._fits:
            self._attach_arrays(arena)
        else:  # the caller has no place for observations of this kind: they are handed over one by one
            space, count = self.envs[0].observation_space, len(self.rows)
            own = np.zeros((count, *(space.shape or ())), space.dtype)
            self._batch.attach(own, np.zeros(count), np.zeros(count, np.bool_), np.zeros(count, np.bool_))
        super().attach(arena, writer, task_source)

    def _attach_arrays(self, arena: Arena) -> None:
        its = slice(self.rows.start, self.rows.stop)
        self._numbers = arena.reward[its], arena.terminated[its], arena.truncated[its]
        self._its_actions, self._its_wide_actions = (
            arena.actions[0][its],
            [each[its] for each in arena.wide_actions.values()],
        )
        self._its_origins = arena.origins[its] if arena.origins.size else None

    @property
    def writer(self) -> ObservationWriter:
        """Where observations go."""
        return self._writer

    @writer.setter
    def writer(self, writer: ObservationWriter) -> None:
        self._writer = writer
        if self._fits:
            self._batch.attach(writer.results[0][self.rows.start : self.rows.stop], *self._numbers)

    # -- the quick way -----------------------------------------------------------------------------------------------

    @property
    def is_quick(self) -> bool:
        """Whether a step can be one call: nobody has to be told anything, and nobody has anything to tell."""
        return self._fits and self._task_source is None and not self._interrupted

    def step_all_together(self, mode: int, outcome: Outcome) -> None:
        """Step all rows, and begin new episodes as the mode says."""
        columns = self._step_together(self._batch.everybody, self._its_actions, mode, outcome, ALL)
        if columns:
            outcome.infos.append(Columns(self.rows, columns))

    def step_some_together(self, rows: Rows, is_wide: bool, mode: int, outcome: Outcome) -> None:
        """Step these rows. Actions in double precision become those of the space: rules are compiled for one type."""
        places = np.array(rows, np.int64) - self.rows.start
        if is_wide:
            self._its_actions[places] = self._its_wide_actions[0][places]
        columns = self._step_together(places, self._its_actions, mode, outcome, places)
        if columns:
            outcome.infos.extend(by_environment([Columns(rows, columns)]).items())

    def _step_together(self, places: Array, actions: Array, mode: int, outcome: Outcome, its: Any) -> dict[str, Array]:
        batch, origins = self._batch, self._its_origins
        begun = places[batch.state.is_due[places]] if origins is not None else None
        self.progress[0] = self.rows.start + int(places[0]) + 1
        try:
            with self.clock or UNTIMED:
                num_ended = batch.step(places, actions, mode)
        except BaseException as error:
            # Nobody knows in which row, and how far the others got, so all of them have to be reset.
            rows = [self.rows[place] for place in places.tolist()]
            self._catch_up(rows)
            outcome.failures.extend(self.failure_of(error, row, "step") for row in rows)
            self.clear_rows(rows)
            return {}
        finally:
            self.progress[0] = 0
        if num_ended and mode == SAME_STEP:
            _, terminated, truncated = self._numbers
            begun = places[terminated[places] | truncated[places]]
            outcome.infos.extend((self.rows[place], batch.ending(place)) for place in begun.tolist())
        if origins is not None and begun is not None and len(begun):
            state = batch.state[begun]
            self._note_origins(begun, state.episode, state.key, state.origin, KNOWN)
        return batch.columns(its)

    def _note_origins(self, places: Array, episodes: Array, keys: Array, drawn: Array, kind: int) -> None:
        """Note down how these episodes begin, as :func:`note_origin` does for one."""
        assert self._its_origins is not None
        words = np.zeros((len(places), self._its_origins.shape[1]), np.uint64)
        seeds = [self._seeds[place] for place in places]
        words[:, 0], words[:, 1] = self.sequence, episodes
        words[:, 2] = [0 if seed is None or not 0 <= seed < WORD else seed + 1 for seed in seeds]
        words[:, 3], words[:, 4], words[:, 5] = kind, keys.view(np.uint64), drawn.view(np.uint64)
        words[:, 6:] = self._batch.start_words(places)
        self._its_origins[places] = words

    def _begin_together(
        self, rows: Rows, seeds: list[int | None], outcome: Outcome
    ) -> list[tuple[int, dict[str, Any]]]:
        """Begin an episode in these rows, all of them with a seed or none."""
        batch, is_seeded = self._batch, seeds[0] is not None
        places = np.array(rows, np.int64) - self.rows.start
        before = batch.state[places]
        for place, seed in zip(places.tolist(), seeds, strict=True):
            if seed is not None:
                self._seeds[place] = seed
                env: Any = self.envs[place]
                env.reseed(seed)
        if self._its_origins is not None:
            kind = KNOWN | SEEDED if is_seeded else KNOWN
            self._note_origins(places, before.episode + 1, before.key, before.drawn, kind)
        self.progress[0] = rows[0] + 1
        try:
            with self.clock or UNTIMED:
                batch.begin(places)
        except BaseException as error:
            self._catch_up(rows)
            outcome.failures.extend(self.failure_of(error, row, "reset") for row in rows)
            return []
        finally:
            self.progress[0] = 0
        return list(by_environment([Columns(rows, batch.columns(places))]).items())

    # -- row by row --------------------------------------------------------------------------------------------------

    def step_rows(self, rows: Rows, actions: Iterable[Any], outcome: Outcome) -> list[Finished]:
        """Step these environments one after the other. Whose episode ended is returned, and not reset."""
        self._catch_up(rows)
        return super().step_rows(rows, actions, outcome)

    def reset_rows(
        self, rows: Rows, arguments: list[dict[str, Any]] | None, outcome: Outcome
    ) -> list[tuple[int, dict[str, Any]]]:
        """Reset these environments, each with its own keyword arguments, or with none. The infos are returned."""
        self._catch_up(rows)
        options = [keywords for keywords in arguments or () if keywords.get("options")]
        seeds: list[int | None] = [keywords.get("seed") for keywords in arguments or [{}] * len(rows)]
        are_alike = len({seed is None for seed in seeds}) == 1 and all(seed is None or seed >= 0 for seed in seeds)
        if self.is_quick and not options and are_alike:
            return self._begin_together(rows, seeds, outcome)
        return super().reset_rows(rows, arguments, outcome)

    def _catch_up(self, rows: Rows) -> None:
        """Learn what has happened to these in steps that were one call."""
        episodes, steps, first = self._batch.state.episode, self._batch.state.steps, self.rows.start
        for row in rows:
            place = row - first
            self._episodes[place], self.steps[place] = int(episodes[place]), int(steps[place]) - self.rounds
        for place in list(self._interrupted):
            env: Any = self.envs[place]
            if not env.has_news:
                self.envs[place] = env.env
                self._interrupted.discard(place)

    def begin_at(self, row: int, start: Start) -> None:
        """Let the next reset of an environment be like the one with which its history begins."""
        super().begin_at(row, start)
        self._batch.state.episode[row - self.rows.start] = start.episode - 1

    def interrupt(self, row: int, start: Start) -> None:
        """Let the next step of an environment say that its episode was lost."""
        super().interrupt(row, start)
        place = row - self.rows.start
        self._batch.state.episode[place] = start.episode
        self._interrupted.add(place)

    def renew(self, row: int, env_fn: EnvFn, past: Past) -> None:
        """Let a row be as if it had just been made."""
        place = row - self.rows.start
        entropy = secrets.randbits(62) if past.entropy is None else quiet_seed(past.entropy, past.row)
        self._batch.renew(place, entropy)
        self.envs[place] = self._batch.env(place)
        self._interrupted.discard(place)
        self._seeds[place] = None

    def counters(self) -> Counters:
        """How far all environments are."""
        self._catch_up(self.rows)
        return super().counters()

    def whereabouts(self, row: int) -> str:
        """Where an environment is, for messages."""
        self._catch_up([row])
        return super().whereabouts(row)


class DueRows(MutableSet[int]):
    """The environments whose next step is a reset, kept in the rows themselves."""

    def __init__(self, rows: range, is_due: Array) -> None:
        self._first, self._is_due = rows.start, is_due

    def __contains__(self, row: object) -> bool:
        return isinstance(row, int) and bool(self._is_due[row - self._first])

    def __iter__(self) -> Iterator[int]:
        return iter((np.flatnonzero(self._is_due) + self._first).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self._is_due))

    def add(self, row: int) -> None:
        """Let its next step be a reset."""
        self._is_due[row - self._first] = True

    def discard(self, row: int) -> None:
        """Let its next step be a step."""
        self._is_due[row - self._first] = False
