"""``EnvList``: environments that need have nothing in common; results are lists.

Where :class:`ParallelEnv` makes one batch of equal environments, this runs different worlds in one pool: a maze beside a
bandit beside a web shop, each with its own spaces. Observations and actions are handed on as they are.

A *turn* is several actions in one message, as a language model gives them. What a turn does is a function that runs
beside the environment::

    envs = shoal.EnvList([make_maze, make_bandit], turn=shoal.run_actions)
    observations, rewards, terminated, truncated, infos = envs.step([["Up", "Up", "Left"], ["pull"]])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from shoal.vector.arguments import autoreset_mode_of
from shoal.vector.engine import Engine
from shoal.vector.errors import InvalidAction, InvalidActionType, ResetNeeded
from shoal.vector.face import Face
from shoal.vector.first_ready import Batch
from shoal.vector.infos import by_environment
from shoal.vector.layout import as_slice
from shoal.vector.loose import LooseColumn, LooseValues
from shoal.vector.making import factories_of_list
from shoal.vector.messages import EnvFn, Op, Outcome
from shoal.vector.observations import shortened
from shoal.vector.session import Form
from shoal.vector.tasked import Tasks
from shoal.vector.tasks import Options, Seeds, TaskFunction, rows_of
from shoal.vector.turns import Turn, TurnFactory


class Results(NamedTuple):
    """What a step gives: one entry for each environment, in the order in which they were named."""

    observations: list[Any]
    rewards: list[float]
    terminated: list[bool]
    truncated: list[bool]
    infos: list[dict[str, Any]]


class EnvList(Face):
    """Runs environments that may all be different.

    Args:
        env_fns: one for each environment: a callable that makes it, the id or the `EnvSpec` of a registered one, or a pair of
            an id and of keywords for it.
        turn: what a step does, instead of calling the environment's ``step``: a function of the environment and of what was
            given as its action, which returns the five values of a step. It runs where the environment is.
        autoreset_mode: what happens when an episode ends; here, by default, nothing.

    The other arguments are those of :class:`ParallelEnv`. ``send``, ``recv`` and the rest work as they do there, with lists.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn | str | EnvSpec | tuple[str, Mapping[str, Any]]],
        *,
        turn: Turn | None = None,
        backend: str = "auto",
        num_workers: int | None = None,
        threads_per_worker: int | None = None,
        start_method: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.DISABLED,
        step_timeout: float | None = None,
        pin_workers: bool = True,
        groups: int | None = None,
        group_size: int | None = None,
        check_groups: bool | str = True,
        tasks: TaskFunction | Sequence[Any] | None = None,
        isolate_rng: bool = False,
        on_fault: str | None = None,
        timeouts: Mapping[str, float | None] | None = None,
        max_worker_memory: int | str | None = None,
        max_worker_episodes: int | None = None,
        replayable: bool | None = None,
        in_process: Sequence[int] = (),
    ) -> None:
        engine = Engine.of(locals())
        self.closed = True  # until there is something to close
        env_fns = factories_of_list(env_fns)
        tasking = Tasks(len(env_fns), groups, group_size, check_groups, tasks)
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        self._open(env_fns if turn is None else [TurnFactory(env_fn, turn) for env_fn in env_fns], engine, tasking)
        try:
            censuses = self._session.pool.censuses
            self.observation_spaces = [census.observation_space for census in censuses]
            self.action_spaces = [census.action_space for census in censuses]
            self.metadatas = [census.metadata for census in censuses]
            self._furnish(Form(Anything(), Anything(), self.autoreset_mode, tasking.source))
        except BaseException:
            self._session.close(1.0, quietly=True)
            raise

    def _settle_in(self) -> None:
        self._arena, self._observations = self._session.arena, self._session.observations

    def reset(
        self, *, seed: Seeds = None, options: Options = None, env_ids: Any = None, group_ids: Any = None
    ) -> tuple[list[Any], list[dict[str, Any]]]:
        """Reset all environments, or some, each with its own task. Returns their observations and infos, in this order.

        Args:
            seed: a number, to which each adds its index (or its group's), or one for each.
            options: a dictionary for all of them, or one for each.
            env_ids: the environments to reset: indices, or a mask.
            group_ids: the groups to reset, instead.
        """
        self._finish_stalled()
        self._check_idle("reset")
        rows = self._tasks.rows_of(env_ids, group_ids)
        resets = self._session.resets(self._tasks.resets(rows, seed, options))
        self._asked = rows
        self._tasks.groups.expect(rows)
        if self._auto is None:
            self._session.begin("reset", Op.RESET, resets)
            return self.reset_wait()
        with self._auto.beginning():
            self._session.begin("reset", Op.RESET, resets)
            results = self.reset_wait()
        self._auto.note_infos(results[-1])
        return results

    def reset_wait(self) -> tuple[list[Any], list[dict[str, Any]]]:
        """The results of a :meth:`reset` that was interrupted (Ctrl-C) while it waited."""
        self._check_open()
        return self._session.finish("reset", self._reset_results)

    def _reset_results(self, outcome: Outcome) -> tuple[list[Any], list[dict[str, Any]]]:
        rows = self._asked
        self._readiness.begin(rows)
        results = self._results(rows, outcome)
        self._compare_members(rows, results)
        return results.observations, results.infos

    def step(self, actions: Sequence[Any], env_ids: Any = None) -> Results:
        """Step all environments, or some, and wait for all of these."""
        if self._auto is None:
            return self._step(actions, env_ids)
        if env_ids is None:
            stepped: Results = self._timed(partial(self._step, actions, env_ids))
            return stepped
        self._consult()
        stepped = self._step(actions, env_ids)
        if self._auto is not None:
            self._auto.note_some(len(stepped.rewards), stepped.infos)
        return stepped

    def _step(self, actions: Sequence[Any], env_ids: Any) -> Results:
        session = self._session
        if session.is_asked_again("step", (actions, env_ids)):
            return self.step_wait()
        self._check_idle("step")
        rows = rows_of(env_ids, self.num_envs)
        self._check_ready(rows)
        with session.access:
            payloads = session.steps(rows, *self._write_actions(actions, rows))
            self._asked = rows
            results = session.perform("step", Op.STEP, payloads, self._step_results, asked=(actions, env_ids))
        session.pending = None  # and not before, as in `Session.finish`
        return results

    def step_wait(self) -> Results:
        """The results of a :meth:`step` that was interrupted (Ctrl-C) while it waited."""
        self._check_open()
        return self._session.finish("step", self._step_results)

    def _step_results(self, outcome: Outcome) -> Results:
        return self._results(self._asked, outcome)

    def close(self, timeout: float | None = None, terminate: bool = False) -> None:
        """Close all environments. What is not done after ``timeout`` seconds, or at once with ``terminate``, is ended."""
        if not self.closed:
            self.closed = True
            self._close_session(timeout, terminate)
            for name in ("_arena", "_observations"):
                self.__dict__.pop(name, None)

    def __len__(self) -> int:
        return self.num_envs

    def __enter__(self) -> EnvList:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.wait_timed_out = True  # leaving the block, perhaps by an exception, is no mistake to warn about
        self.close()

    def _results(self, rows: list[int], outcome: Outcome) -> Results:
        """The results of these environments, or what they raised."""
        self._observations.update(outcome.loose)
        if outcome.failures:
            self._readiness.give_up([failure.env_index for failure in outcome.failures])
            self._session.raise_failures(outcome)
        infos = by_environment(outcome.infos)
        arena, where = self._arena, as_slice(rows) or rows
        terminated, truncated = arena.terminated[where], arena.truncated[where]
        self._readiness.note_ends(terminated | truncated, where)
        return Results(
            list(self._observations.read_some(rows)),
            arena.reward[where].tolist(),
            terminated.tolist(),
            truncated.tolist(),
            [infos.get(row, {}) for row in rows],
        )

    def _compare_members(self, rows: list[int], results: Results) -> None:
        """See whether members of a group begin alike, where these have begun an episode."""
        for row, observation in zip(rows, results.observations, strict=True):
            self._tasks.groups.compare(row, observation)

    # -- what every face adds --------------------------------------------------------------------------------------

    def _check_ready(self, rows: list[int]) -> None:
        if not self._readiness.may_step(rows):
            unready = [row for row in rows if not self._readiness.is_ready[row]]
            raise ResetNeeded(
                f"environments {unready} must be reset before they are stepped: they have never been, their episode has "
                "ended, or they have failed. Call reset(env_ids=…)"
            )

    def _kind(self) -> str:
        spaces = [f"{seen} / {taken}" for seen, taken in zip(self.observation_spaces, self.action_spaces, strict=True)]
        return f"environments with spaces {'; '.join(spaces)} and autoreset {self.autoreset_mode.value}"

    def _all_observations(self) -> list[Any]:
        return list(self._observations.read_some(list(range(self.num_envs))))

    def _write_actions(self, actions: Any, rows: list[int]) -> tuple[LooseValues, tuple[int, ...]]:
        if isinstance(actions, str | bytes | Mapping) or not isinstance(actions, Iterable):
            raise InvalidActionType(
                f"actions must be a sequence with one for each of the {len(rows)} environments, got {shortened(actions)}. "
                "Nothing was sent to the environments."
            )
        values = list(actions)
        if len(values) != len(rows):
            raise InvalidAction(
                f"{len(values)} actions were given for {len(rows)} environments. Nothing was sent to the environments."
            )
        return [LooseColumn(rows, 0, values)], ()

    def _batch(self, outcomes: dict[int, Outcome]) -> Batch:
        together = Outcome.empty()
        for outcome in outcomes.values():
            together.loose.extend(outcome.loose)
            together.infos.extend(outcome.infos)
        rows = list(outcomes)
        results = self._results(rows, together)
        self._compare_members(rows, results)
        return Batch(np.array(rows, dtype=np.int64), *results)


class Anything(spaces.Space[Any]):
    """A space of which nothing is known, so that everything in it is handed on as it is."""

    def __init__(self) -> None:
        super().__init__(None, None)

    def contains(self, x: Any) -> bool:
        """Always."""
        return True

    @property
    def is_np_flattenable(self) -> bool:
        """Never."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Anything)

    __hash__ = object.__hash__
