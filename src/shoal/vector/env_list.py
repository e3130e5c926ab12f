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
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from shoal.vector.arguments import autoreset_mode_of
from shoal.vector.branching import Branching
from shoal.vector.engine import Engine
from shoal.vector.errors import InvalidAction, InvalidActionType, ResetNeeded
from shoal.vector.first_ready import Batch
from shoal.vector.infos import by_environment
from shoal.vector.layout import Layout, as_slice
from shoal.vector.loose import LooseColumn, LooseValues
from shoal.vector.messages import Attachment, EnvFn, Op, Outcome
from shoal.vector.observations import ObservationReader, shortened
from shoal.vector.tasks import Options, Seeds, TaskFunction, rows_of
from shoal.vector.turns import Turn, TurnFactory


class Results(NamedTuple):
    """What a step gives: one entry for each environment, in the order in which they were named."""

    observations: list[Any]
    rewards: list[float]
    terminated: list[bool]
    truncated: list[bool]
    infos: list[dict[str, Any]]


class EnvList(Branching):
    """Runs one environment per factory; they may all be different.

    Args:
        env_fns: one factory per environment, each a callable without arguments.
        turn: what a step does, instead of calling the environment's ``step``: a function of the environment and of what was
            given as its action, which returns the five values of a step. It runs where the environment is.
        autoreset_mode: what happens when an episode ends; here, by default, nothing.

    The other arguments are those of :class:`ParallelEnv`. ``send``, ``recv`` and the rest work as they do there, with lists.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
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
        check_groups: bool = True,
        tasks: TaskFunction | Sequence[Any] | None = None,
        isolate_rng: bool = False,
        on_fault: str | None = None,
        timeouts: Mapping[str, float | None] | None = None,
        max_worker_memory: int | str | None = None,
        max_worker_episodes: int | None = None,
        replayable: bool | None = None,
        in_process: Sequence[int] = (),
    ) -> None:
        self.closed = True
        env_fns = list(env_fns)
        self._arrange_tasks(len(env_fns), groups, group_size, check_groups, tasks)
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        self._start(
            env_fns if turn is None else [TurnFactory(env_fn, turn) for env_fn in env_fns],
            Engine(
                backend=backend,
                num_workers=num_workers,
                threads_per_worker=threads_per_worker,
                start_method=start_method,
                step_timeout=step_timeout,
                pin_workers=pin_workers,
                isolate_rng=isolate_rng,
                on_fault=on_fault,
                timeouts=timeouts,
                max_worker_memory=max_worker_memory,
                max_worker_episodes=max_worker_episodes,
                replayable=replayable,
                in_process=in_process,
            ),
        )
        try:
            censuses = self._pool.censuses
            self.observation_spaces = [census.observation_space for census in censuses]
            self.action_spaces = [census.action_space for census in censuses]
            self.metadatas = [census.metadata for census in censuses]
            self._is_ready = np.array([census.was_reset for census in censuses])
            anything = Anything()
            attachment = Attachment(anything, anything, self.num_envs, self.autoreset_mode, self._task_source)
            self._arena = self._pool.attach(attachment)
            self._observations = ObservationReader(Layout.of(anything, anything, self.num_envs), self._arena)
        except BaseException:
            self._finalizer()
            raise
        self.closed = False

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
        rows = self._rows_of(env_ids, group_ids)
        resets = self._resets(rows, seed, options)
        self._asked = rows
        self._groups.expect(rows)
        self._begin("reset", Op.RESET, resets)
        return self.reset_wait()

    def reset_wait(self) -> tuple[list[Any], list[dict[str, Any]]]:
        """The results of a :meth:`reset` that was interrupted (Ctrl-C) while it waited."""
        return self._finish("reset", self._reset_results)

    def _reset_results(self, outcome: Outcome) -> tuple[list[Any], list[dict[str, Any]]]:
        rows = self._asked
        self._is_ready[rows] = True
        results = self._settle(rows, outcome)
        for row, observation in zip(rows, results.observations, strict=True):
            self._groups.compare(row, observation)
        return results.observations, results.infos

    def step(self, actions: Sequence[Any], env_ids: Any = None) -> Results:
        """Step all environments, or some, and wait for all of these."""
        if self._is_asked_again("step", (actions, env_ids)):
            return self.step_wait()
        self._check_idle("step")
        rows = rows_of(env_ids, self.num_envs)
        self._check_ready(rows)
        loose, wide = self._write_actions(actions, rows)
        payloads = self._steps(rows, loose, wide)
        self._asked = rows
        self._begin("step", Op.STEP, payloads)
        return self._finish("step", self._step_results, asked=(actions, env_ids))

    def step_wait(self) -> Results:
        """The results of a :meth:`step` that was interrupted (Ctrl-C) while it waited."""
        return self._finish("step", self._step_results)

    def _step_results(self, outcome: Outcome) -> Results:
        return self._settle(self._asked, outcome)

    def close(self, timeout: float | None = None, terminate: bool = False) -> None:
        """Close all environments. What is not done after ``timeout`` seconds, or at once with ``terminate``, is ended."""
        if not self.closed:
            self.closed = True
            self._close_pool(timeout, terminate)
            for name in ("_arena", "_observations"):
                self.__dict__.pop(name, None)

    def __len__(self) -> int:
        return self.num_envs

    def __enter__(self) -> EnvList:
        return self

    def __exit__(self, *_: object) -> None:
        self._wait_timed_out = True  # leaving the block, perhaps by an exception, is no mistake to warn about
        self.close()

    def _settle(self, rows: list[int], outcome: Outcome) -> Results:
        """The results of these environments, or what they raised."""
        self._observations.update(outcome.loose)
        if outcome.failures:
            self._give_up([failure.env_index for failure in outcome.failures])
            self._raise_failures(outcome)
        infos = by_environment(outcome.infos)
        arena, where = self._arena, as_slice(rows) or rows
        if self.autoreset_mode is AutoresetMode.DISABLED:
            self._is_ready[rows] = ~(arena.terminated[rows] | arena.truncated[rows])
        return Results(
            list(self._observations.read_some(rows)),
            arena.reward[where].tolist(),
            arena.terminated[where].tolist(),
            arena.truncated[where].tolist(),
            [infos.get(row, {}) for row in rows],
        )

    # -- what sending and receiving need -------------------------------------------------------------------------

    def _check_ready(self, rows: Sequence[int]) -> None:
        if not self._is_ready[rows].all():
            unready = [row for row in rows if not self._is_ready[row]]
            raise ResetNeeded(
                f"environments {unready} must be reset before they are stepped: they have never been, their episode has "
                "ended, or they have failed. Call reset(env_ids=…)"
            )

    def _begin_episodes(self, rows: Sequence[int]) -> None:
        self._is_ready[list(rows)] = True
        self._groups.expect(rows)

    def _kind(self) -> str:
        spaces = [f"{seen} / {taken}" for seen, taken in zip(self.observation_spaces, self.action_spaces, strict=True)]
        return f"environments with spaces {'; '.join(spaces)} and autoreset {self.autoreset_mode.value}"

    def _go_on_from(self, is_ready: list[bool]) -> None:
        self._is_ready[:] = is_ready

    def _all_observations(self) -> list[Any]:
        return list(self._observations.read_some(list(range(self.num_envs))))

    def _give_up(self, rows: Sequence[int]) -> None:
        self._is_ready[list(rows)] = False

    def _abandoned(self) -> None:
        self._is_ready[:] = False

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
        results = self._settle(list(outcomes), together)
        for row, observation in zip(outcomes, results.observations, strict=True):
            self._groups.compare(row, observation)
        return Batch(np.array(list(outcomes), dtype=np.int64), *results)


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
