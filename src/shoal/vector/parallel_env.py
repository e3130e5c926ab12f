"""``ParallelEnv``: many environments as one, a Gymnasium vector environment.

::

    policy ──actions──▶ ParallelEnv ──checked, into the arena──▶ Session ──▶ Pool ──▶ Backend ──▶ Runner, Runner, ...
    policy ◀──arrays─── ParallelEnv ◀──────copied out of it───── Session ◀── Pool ◀── Backend ◀──────┘
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from time import perf_counter
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from shoal.vector.actions import ActionWriter, Written
from shoal.vector.arguments import autoreset_mode_of, check_flag
from shoal.vector.batching import (
    ObservationMode,
    batch_spaces,
    check_observation_mode,
    common_action_space,
)
from shoal.vector.engine import Engine
from shoal.vector.errors import ConfigurationError, ResetNeeded, StateError
from shoal.vector.face import Face
from shoal.vector.first_ready import Batch
from shoal.vector.half_way import HalfWay, half_way_of
from shoal.vector.halves import halves_of
from shoal.vector.infos import EnvInfos, batch_infos
from shoal.vector.layout import Array, FixedLeaf
from shoal.vector.leases import PoisonedLeases, num_slots_for
from shoal.vector.messages import NOTHING, STEP, EnvFn, Op, Outcome, Pace, Steps
from shoal.vector.observations import EarlyCopy
from shoal.vector.parts import Part, split
from shoal.vector.pool import OnReply
from shoal.vector.session import Form, Given
from shoal.vector.short_way import ShortWay, short_way_of
from shoal.vector.tasked import Tasks
from shoal.vector.tasks import Options, Seeds, TaskFunction, reset_mask_of, seeds_of
from shoal.vector.tensors import as_tensors, check_output, duplicate_for

LARGE = 2**18  # observations of so many bytes are copied worker by worker, as these finish

Step = tuple[Any, Array, Array, Array, dict[str, Any]]


class ParallelEnv(Face, VectorEnv[Any, Any, Array]):
    """Runs one environment per factory, on the backend of your choice, with the same results on every backend.

    Args:
        env_fns: one factory per environment, each a callable without arguments.
        backend: ``"serial"`` (a loop in this process), ``"threads"``, ``"pipes"`` or ``"shm"`` (worker processes that
            exchange messages, or share memory), or ``"auto"``.
        num_workers: how many threads or processes; by default, as many as there are processors to use.
        threads_per_worker: how many environments of one worker process are at work at the same time, each on a thread of its
            own: for steps that wait (for a network, a game, a database) more than they compute. By default one, except
            that ``"auto"`` uses more when it sees steps wait. Environments whose ``step`` is a coroutine need no threads.
        start_method: how processes are started: ``"forkserver"`` (the default on Linux), ``"spawn"`` or ``"fork"``.
        autoreset_mode: what happens when an episode ends, as in Gymnasium.
        observation_mode: ``"same"``, ``"different"``, or a tuple of batched and single space, as in Gymnasium.
        copy: whether results belong to the caller. With ``False``, observations are views of the memory that environments
            write into, and stay valid for ``lease`` further steps.
        lease: for how many further steps an observation stays valid with ``copy=False``.
        debug_leases: with ``copy=False``, spoil observations whose lease has ended, so that code that still uses them
            is found. Costs the copies that were to be saved.
        output: ``"numpy"``, or ``"torch"`` for tensors over the same memory, pinned where there is a GPU.
        step_timeout: seconds that a step of all environments may take. A worker that overruns it is ended. Needs worker
            processes: in-process backends cannot end an environment, and say so.
        pin_workers: let each worker process keep to a processor of its own while it looks for its next step, where there
            are exactly as many of both. Turn it off for environments that start threads or processes in their steps.
        groups: how many groups there are; the members of a group are given the same task. Either this or
            ``group_size`` is enough.
        group_size: how many environments make a group.
        check_groups: whether to raise :class:`GroupMismatch` when members of a group start from different observations;
            ``"count"`` counts them in :attr:`stats` instead.
        tasks: with what an episode begins when the caller of ``reset`` says nothing, and on autoreset: a function of the
            environment's (or group's) index and the number of its episode that returns a :class:`Task`, a seed or options;
            or a list of these, dealt out in turn.
        isolate_rng: give every environment a ``random`` and a ``numpy.random`` of its own, so that one that uses these
            global generators is deterministic whoever shares its worker. Costs some microseconds a step.
        on_fault: what happens when a worker process dies or overruns a deadline: ``"restore"`` (the default where there are
            worker processes) replaces it, brings its environments back to exactly where they were, and raises if that is not
            possible; ``"truncate"`` does so too, but ends the episodes of those that cannot be brought back, with
            ``info["fault"]``; ``"raise"`` raises at once, and writes nothing down.
        timeouts: as ``step_timeout``, for ``"construct"``, ``"reset"`` and ``"call"`` too.
        max_worker_memory: replace a worker, at no loss, when it takes more than so many bytes, or ``"2 GB"``.
        max_worker_episodes: replace a worker, at no loss, after so many episodes.
        replayable: ``False`` for environments that must not be repeated: each gets a worker of its own, and when that dies its
            episode ends truncated. By default, what its registration says.
        in_process: indices of environments that stay in this process while the others run in workers.
        shared_memory: for code written for Gymnasium's AsyncVectorEnv: ``True`` means ``backend="shm"`` and ``False``
            means ``backend="pipes"``.
        context: for such code too, another name for ``start_method``.
        daemon: for such code too; has no effect. Workers never outlive this process, and may have children.
        max_concurrency: for such code too: at most so many workers.
        worker: for such code too; only ``None`` is accepted, because the runner is the same everywhere.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        backend: str = "auto",
        num_workers: int | None = None,
        threads_per_worker: int | None = None,
        start_method: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        observation_mode: ObservationMode = "same",
        copy: bool = True,
        lease: int = 1,
        debug_leases: bool = False,
        output: str = "numpy",
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
        shared_memory: bool | None = None,
        context: str | None = None,
        daemon: bool | None = None,
        max_concurrency: int | None = None,
        worker: None = None,
    ) -> None:
        keywords = locals()
        self.closed = True  # until there is something to close
        check_observation_mode(observation_mode)
        for name in ("copy", "debug_leases", "isolate_rng"):
            check_flag(name, keywords[name])
        if worker is not None:
            raise ConfigurationError(
                "a custom worker function is not supported: what steps environments is the same on every backend. "
                "Put what it should do differently into a wrapper of the environment."
            )
        if shared_memory is not None:
            keywords["backend"] = "shm" if shared_memory else "pipes"
        if max_concurrency is not None:
            _check_max_concurrency(max_concurrency)
            keywords["num_workers"] = min(num_workers or max_concurrency, max_concurrency)
        keywords["start_method"] = start_method or context
        env_fns = list(env_fns)
        tasking = Tasks(len(env_fns), groups, group_size, check_groups, tasks)
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        self.copy = copy
        num_slots = num_slots_for(copy, lease)
        self._poisoned = PoisonedLeases(lease) if debug_leases and not copy else None
        check_output(output)
        self.output = output
        self._open(env_fns, Engine.of(keywords), tasking)
        try:
            self._describe(observation_mode)
            self._furnish(
                Form(
                    self.single_observation_space,
                    self.single_action_space,
                    self.autoreset_mode,
                    tasking.source,
                    group_size=tasking.group_size,
                    num_slots=1 if self._poisoned is not None else num_slots,
                    lends_observations=not copy and self._poisoned is None,
                    duplicate=duplicate_for(output),
                )
            )
        except BaseException:
            self._session.close(1.0, quietly=True)
            raise

    def _describe(self, observation_mode: ObservationMode) -> None:
        censuses = self._session.pool.censuses
        self.observation_mode = observation_mode
        self.single_observation_space, self.observation_space = batch_spaces(censuses, observation_mode)
        self.single_action_space = common_action_space(censuses)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {**censuses[0].metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = censuses[0].render_mode
        self._seconds_to_begin = 0.0
        """How long it took to begin the step that is under way."""
        self._has_stepped = False
        self._hands_out_as_is = self._poisoned is None and self.output == "numpy"
        self._reads_copies = self.copy or self._poisoned is not None

    def _settle_in(self) -> None:
        session = self._session
        layout = session.layout
        self._arena, self._observations = session.arena, session.observations
        self._actions = ActionWriter(
            self.single_action_space,
            layout,
            self._arena,
            ignores_ended=self.autoreset_mode is AutoresetMode.NEXT_STEP,
        )
        nbytes = sum(array.nbytes for array in self._arena.observations)
        self._copies_early = self.copy and nbytes >= LARGE and len(session.pool.rows) > 1
        self._early: EarlyCopy | None = None
        self._on_reply: OnReply | None = None
        self._has_one_leaf = isinstance(layout.observation, FixedLeaf)
        self._half_ways: list[HalfWay] = []
        self._short_way: ShortWay | None = short_way_of(
            session.pool, layout, self._actions, hands_out=self._hands_out_as_is and self.copy
        )

    # -- reset ---------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: Seeds = None, options: Options = None, env_ids: Any = None, group_ids: Any = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or some, each with its own task. Returns the observations of all.

        Args:
            seed: a number, to which each adds its index (or its group's), or one for each.
            options: a dictionary for all of them, or one for each. A dictionary may hold a ``"reset_mask"``, as in Gymnasium.
            env_ids: the environments to reset: indices, or a mask.
            group_ids: the groups to reset, instead.
        """
        if self._auto is None:
            self.reset_async(seed, options, env_ids, group_ids)
            return self.reset_wait()
        with self._auto.beginning():
            self.reset_async(seed, options, env_ids, group_ids)
            results = self.reset_wait()
        self._auto.note_infos(results[-1])
        return results

    def reset_async(
        self, seed: Seeds = None, options: Options = None, env_ids: Any = None, group_ids: Any = None
    ) -> None:
        """Begin a reset; :meth:`reset_wait` gives its results."""
        self._finish_stalled()
        self._check_idle("reset_async")
        options, mask = reset_mask_of(options, self.num_envs)
        rows = self._tasks.rows_of(env_ids, group_ids)
        if mask is not None:
            if len(rows) < self.num_envs:
                raise ConfigurationError(
                    "a reset_mask and env_ids were both given: name environments one way or the other"
                )
            seeds = seeds_of(seed, rows, self.num_envs, self.group_size)
            rows = np.flatnonzero(mask).tolist()
            seed = None if seed is None else [seeds[row] for row in rows]
        self._check_all_seen(rows, "reset_mask" if mask is not None else "reset")
        session = self._session
        with session.access:
            session.begin("reset", Op.RESET, session.resets(self._tasks.resets(rows, seed, options)))
            self._resetting = rows
            self._tasks.groups.expect(rows)

    def _check_all_seen(self, rows: list[int], how: str) -> None:
        is_seen = self._readiness.is_seen
        if self._has_stepped:
            is_seen[:] = True
        if len(rows) == self.num_envs or is_seen.all():
            return
        is_missing = ~is_seen
        is_missing[rows] = False
        if is_missing.any():
            raise ResetNeeded(
                f"environments {np.flatnonzero(is_missing).tolist()} have never been reset, and this {how} leaves them out: "
                "there would be no observation of them to return"
            )

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """Wait for what :meth:`reset_async` began."""
        self._check_open()
        return self._session.finish("reset", self._reset_results, timeout)

    def _reset_results(self, outcome: Outcome) -> tuple[Any, dict[str, Any]]:
        self._readiness.is_seen[self._resetting] = True
        self._readiness.begin(self._resetting)
        self._take_in(outcome)
        self._compare_members(self._resetting)
        return self._all_observations(), self._merge_infos(outcome.infos, self.num_envs)

    # -- step ----------------------------------------------------------------------------------------------------

    def step(self, actions: Any) -> Step:
        """Step all environments and wait for all of them."""
        way, session = self._short_way, self._session
        if way is not None and session.pending is None and self._readiness.all_ready and not session.has_sent:
            with session.access:
                try:
                    results = way(actions)
                except BaseException as error:
                    session.interrupted_by(error)
                    raise
                if isinstance(results, Outcome):
                    return self._step_results(results)
                if results is not None:
                    self._has_stepped = True
                    return results
        if self._auto is None:
            return self._step(actions)
        stepped: Step = self._timed(partial(self._step, actions))
        return stepped

    def _step(self, actions: Any) -> Step:
        session = self._session
        if session.pending is not None and session.is_asked_again("step", actions):
            return self.step_wait()
        self._check_open()
        with session.access:
            payloads = self._prepare_step("step", actions)
            results = session.perform("step", STEP, payloads, self._step_results, self._on_reply, actions)
        session.pending = self._early = self._on_reply = None  # and not before, as in `Session.finish`
        return results

    def step_async(self, actions: Any) -> None:
        """Begin a step; :meth:`step_wait` gives its results. A batch of actions that does not fit is refused whole."""
        self._check_open()
        self._consult()
        begin, session = perf_counter(), self._session
        with session.access:
            session.begin("step", Op.STEP, self._prepare_step("step_async", actions))
        self._seconds_to_begin = perf_counter() - begin

    def step_wait(self, timeout: float | None = None) -> Step:
        """Wait for what :meth:`step_async` began.

        After ``timeout`` seconds it raises and may be called again: the step goes on and no result is lost.
        """
        return self._finish_step(self._step_results, itemgetter(-1), timeout)

    def _finish_step(
        self, results_of: Callable[[Outcome], Given], infos_of: Callable[[Given], Any], timeout: float | None = None
    ) -> Given:
        self._check_open()
        begin, session = perf_counter(), self._session
        results = session.finish("step", results_of, timeout, self._on_reply)
        self._early = self._on_reply = None
        if self._auto is not None:
            self._auto.note_step(session, self._seconds_to_begin + perf_counter() - begin, infos_of(results))
        return results

    def _prepare_step(self, name: str, actions: Any) -> dict[int, Steps] | None:
        """Check everything, write the actions, and return what else the workers must be told."""
        session = self._session
        if session.pending is not None or self.closed or (session.has_sent and session.flights):
            self._check_idle(name)
        if not self._readiness.all_ready:
            raise ResetNeeded(self._why_not_ready(list(range(self.num_envs))))
        written = self._actions.write(actions)
        if self._copies_early:
            self._early = EarlyCopy(self._arena)
            self._on_reply = self._early.copy_rows
        return session.steps_of_all(*written)

    def _step_results(self, outcome: Outcome) -> Step:
        arena, readiness = self._arena, self._readiness
        reward, terminated, truncated = arena.reward.copy(), arena.terminated.copy(), arena.truncated.copy()
        self._has_stepped = True
        if readiness.ends_for_good:
            readiness.note_ends(terminated | truncated)
        if outcome.loose or outcome.failures:
            self._take_in(outcome)
        infos = self._merge_infos(outcome.infos, self.num_envs) if outcome.infos else {}
        observation = self._observations.read(self._reads_copies, self._early)
        if self._hands_out_as_is:
            return observation, reward, terminated, truncated, infos
        reward, terminated, truncated = map(self._converted, (reward, terminated, truncated))
        return self._handed_out(observation), reward, terminated, truncated, infos

    def split(self, num_parts: int = 2) -> tuple[Part, ...]:
        """Several parts that step by themselves, so that the policy can work on one while others step.

        Part k has every ``num_parts``-th environment, beginning with k. Each has ``reset``, ``step``, ``step_async`` and
        ``step_wait`` as this has, and results are as deterministic.
        """
        self._check_open()
        return split(self, num_parts)

    def _send_together(self, actions: Any, rows: list[int]) -> None:
        self._check_not_pending("step_async")
        self._send(actions, rows, Pace.TOGETHER)

    def _order_half(self, half: int, actions: Any) -> bool:
        """As :meth:`_send_together`, for one of two halves, if there is a short way now."""
        session = self._session
        if session.pending is not None or self.closed or self._is_undecided or not self._readiness.all_ready:
            return False
        if not self._half_ways:
            self._half_ways, session.has_sent = self._make_half_ways(), True
        return self._half_ways[half].order(actions)

    def _finish_half(self, half: int) -> Step | None:
        """What came of that, if it can be had on the short way; otherwise :meth:`_recv_exactly` goes on."""
        self._session.pool.check_owner()
        return self._half_ways[half].finish() if self._half_ways else None

    def _make_half_ways(self) -> list[HalfWay]:
        arena, session = self._arena, self._session
        hands_out = (
            self._hands_out_as_is
            and self.group_size == 1
            and not self._readiness.ends_for_good
            and arena.num_slots == 1
            and self.copy
            and self._has_one_leaf
        )
        results = [arena.observations[0], arena.reward, arena.terminated, arena.truncated] if hands_out else None
        halves = halves_of(session.pool.rows, self.group_size)
        merge = self._merge_infos
        return [half_way_of(half, session.pool, session.flights, self._actions, results, merge) for half in halves]

    # -- everything else -----------------------------------------------------------------------------------------

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of every environment's random numbers."""
        return self.get_attr("np_random_seed")

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """A copy of every environment's random number generator."""
        return self.get_attr("np_random")

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """Close all environments. What is not done after ``timeout`` seconds, or at once with ``terminate``, is ended."""
        self._close_session(timeout, terminate)
        # What refers to the arena keeps its memory alive, where the caller may have views of it.
        for name in ("_arena", "_actions", "_observations"):
            self.__dict__.pop(name, None)
        self._early = self._on_reply = self._short_way = None
        self._half_ways = []

    def __enter__(self) -> ParallelEnv:
        self._check_open()
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise StateError(
            "running environments cannot be copied or pickled. What to do: make them again where they are needed; "
            "state_dict() and load_state_dict() bring these to where others are, and fork() copies one of them"
        )

    def __exit__(self, *_: object) -> None:
        self._session.wait_timed_out = True  # leaving the block, perhaps by an exception, is no mistake to warn about
        self.close()

    # -- what all of it stands on --------------------------------------------------------------------------------

    def _check_ready(self, rows: list[int]) -> None:
        if not self._readiness.may_step(rows):
            raise ResetNeeded(self._why_not_ready(rows))

    def _kind(self) -> str:
        return (
            f"environments with observations {self.single_observation_space}, actions {self.single_action_space} and "
            f"autoreset {self.autoreset_mode.value}"
        )

    def _all_observations(self) -> Any:
        return self._handed_out(self._observations.read(self._reads_copies))

    def _write_actions(self, actions: Any, rows: list[int]) -> Written:
        return self._actions.write_some(actions, rows)

    def _batch(self, outcomes: dict[int, Outcome]) -> Batch:
        rows, arena = list(outcomes), self._arena
        infos: EnvInfos = []
        for place, outcome in enumerate(outcomes.values()):
            if outcome is NOTHING:
                continue
            if outcome.loose:
                self._observations.update(outcome.loose)
            infos.extend((place, info) for _, info in outcome.infos)
        self._compare_members(rows)
        terminated, truncated = arena.terminated[rows], arena.truncated[rows]
        self._readiness.note_ends(terminated | truncated, rows)
        return Batch(
            np.array(rows, dtype=np.int64),
            self._converted(self._observations.read_some(rows)),
            self._converted(arena.reward[rows]),
            self._converted(terminated),
            self._converted(truncated),
            self._merge_infos(infos, len(rows)),
        )

    def _compare_members(self, rows: list[int]) -> None:
        """See whether members of a group begin alike, where these have begun an episode."""
        if self.group_size > 1:
            for row in rows:
                self._tasks.groups.compare(row, self._observations.read_some([row]))

    def _merge_infos(self, infos: EnvInfos, num_envs: int) -> dict[str, Any]:
        return batch_infos(infos, num_envs)

    def _handed_out(self, observation: Any) -> Any:
        """What the caller is given, and how long it holds."""
        if self._poisoned is not None:
            observation = self._poisoned.hand_out(observation)
        return self._converted(observation)

    def _converted(self, results: Any) -> Any:
        return as_tensors(results) if self.output == "torch" else results

    def _take_in(self, outcome: Outcome) -> None:
        """Take in what is not in the arena, and raise what environments raised."""
        if outcome.loose:
            self._observations.update(outcome.loose)
        if outcome.failures:
            failed = [failure.env_index for failure in outcome.failures if failure.phase in ("reset", "step")]
            self._readiness.give_up(failed)
            self._session.raise_failures(outcome)

    def _why_not_ready(self, rows: list[int]) -> str:
        readiness = self._readiness
        rows = [row for row in rows if not readiness.is_ready[row]]
        names = f"environment {rows[0]}" if len(rows) == 1 else f"environments {rows}"
        if readiness.ends_for_good and (self._has_stepped or readiness.is_seen[rows].all()):
            return (
                f"the episode of {names} has ended and autoreset is disabled: reset with "
                'options={"reset_mask": terminated | truncated} before the next step'
            )
        if not readiness.is_seen[rows].any():
            return f"{names} must be reset before the first step: call reset()"
        return f"{names} failed, and must be reset before the next step: call reset()"


def _check_max_concurrency(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConfigurationError(f"`max_concurrency` must be an integer or None, got {value!r}.")
    if value < 1:
        raise ConfigurationError(f"`max_concurrency` must be a positive or None, got {value}.")
