"""What every face has in common: it holds a session, asks its environments, sends them off, saves and closes them.

What may be asked for, in which state::

                   reset()                 step_async()
    made ─────────────────────▶ ready ◀─────────────────▶ pending
      └─ reset_async() ─▶ pending ─ reset_wait() ─▶ ready        any ─ close() ─▶ closed
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from shoal.vector.arguments import seconds_to_wait
from shoal.vector.auto.autopilot import Autopilot, opened
from shoal.vector.branching import branch, load, saved
from shoal.vector.engine import Engine
from shoal.vector.errors import AlreadyPending, Closed, ConfigurationError
from shoal.vector.first_ready import Batch, wait_in_loop
from shoal.vector.flights import Recording, Wanted
from shoal.vector.interrupts import forbidden, postponed
from shoal.vector.layout import Array
from shoal.vector.loose import LooseValues
from shoal.vector.messages import Assignment, Call, EnvFn, Op, Outcome, Pace
from shoal.vector.plan import Plan
from shoal.vector.pool import Pool
from shoal.vector.readiness import Readiness
from shoal.vector.session import Form, Session
from shoal.vector.tasked import Tasks
from shoal.vector.tasks import Options, Seeds, rows_of
from shoal.vector.wards import Stats

if TYPE_CHECKING:
    from shoal.vector.profile import Profiler

CLOSE_SECONDS = 5.0


class Face:
    """Holds a session, and what outlives it when environments move."""

    num_envs: int
    closed: bool
    _session: Session
    _form: Form
    _tasks: Tasks
    _auto: Autopilot | None = None
    """Who decides where the environments run, while that is open."""
    _former_auto: Autopilot | None = None
    """Who has decided for good, and may still be ending what was left."""
    _profiler: Profiler | None = None
    _is_receiving: bool = False

    def _open(self, env_fns: Sequence[EnvFn], engine: Engine, tasks: Tasks) -> None:
        """Make the environments. Then :meth:`_furnish` says how their data is laid out."""
        self.env_fns = list(env_fns)
        self.num_envs, self._tasks = len(self.env_fns), tasks
        self._session, self._auto = opened(self.env_fns, engine)

    def _furnish(self, form: Form) -> None:
        self._form = form
        was_reset = [census.was_reset for census in self._session.pool.censuses]
        ends_for_good = form.autoreset_mode is gymnasium.vector.AutoresetMode.DISABLED
        self._readiness = self._session.readiness = Readiness(was_reset, ends_for_good=ends_for_good)
        self._session.furnish(form)
        self._settle_in()
        self.closed = False

    # -- what is known -----------------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        """Which backend and how many workers, and why."""
        return self._session.plan

    @property
    def on_fault(self) -> str:
        """What happens when a worker dies."""
        return self._session.on_fault

    @property
    def step_timeout(self) -> float | None:
        """Seconds that a step of all environments may take."""
        return self._session.step_timeout

    @property
    def group_size(self) -> int:
        """How many environments make a group; 1 without groups."""
        return self._tasks.group_size

    @property
    def num_groups(self) -> int:
        """How many groups there are."""
        return self._tasks.num_groups

    def group(self, group_id: int) -> range:
        """The environments of a group."""
        return self._tasks.group(group_id)

    @property
    def envs(self) -> list[gymnasium.Env[Any, Any]]:
        """The environments themselves, where they live in this process."""
        self._check_open()
        runners = getattr(self._pool.unwatched, "runners", None)
        if runners is not None and len(runners) == 1:
            live: list[gymnasium.Env[Any, Any]] = runners[0].slice.envs
            return live
        if runners is None:
            raise AttributeError(
                f'the environments of backend="{self.plan.backend}" live in other processes; '
                'use call(), get_attr() and set_attr(), or backend="serial"'
            )
        return [env for runner in runners for env in runner.slice.envs]

    @property
    def stats(self) -> Stats:
        """How many workers were replaced, what that cost, and how members of groups have begun."""
        self._check_open()
        groups, supervisor = self._tasks.groups, self._session.supervisor
        counted = {"group_comparisons": groups.num_compared, "group_mismatches": groups.num_mismatches}
        if supervisor is None:
            return Stats(**counted)
        return replace(supervisor.stats, dropped_replies=getattr(supervisor.backend, "dropped_replies", 0), **counted)

    @property
    def worker_envs(self) -> tuple[range, ...]:
        """The environments of each worker, or of this process where there are no workers."""
        self._check_open()
        return tuple(self._pool.rows)

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The worker processes, in the order of their environments; none where environments run in this process."""
        self._check_open()
        return self._pool.pids

    def profile(self) -> Profiler:
        """Find out where the time goes, in a ``with`` block around the loop.

        ::

            with envs.profile() as profile:
                for _ in range(1000):
                    observations, *_ = envs.step(policy(observations))
            print(profile)
            profile.save_picture("profile.png")

        Costs nothing when it is not used, and little when it is.
        """
        from shoal.vector.profile import Profiler

        self._check_open()
        return Profiler(self)

    # -- asking environments -----------------------------------------------------------------------------------------

    def call(self, name: str | Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every environment, or read an attribute, and return one value per environment.

        Instead of a name, a function may be given: it is called with each environment, where that is, and ``args``.
        """
        self.call_async(name, *args, **kwargs)
        return self.call_wait()

    def call_async(self, name: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        """Begin a call; :meth:`call_wait` gives its results."""
        self._check_idle("call_async")
        self._begin_call(list(range(self.num_envs)), name, args, kwargs)

    def call_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """Wait for what :meth:`call_async` began."""
        return self._called(list(range(self.num_envs)), timeout)

    def call_on(self, env_ids: Any, name: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """As :meth:`call`, for these environments only, in this order."""
        self._check_idle("call_on")
        rows = rows_of(env_ids, self.num_envs)
        self._begin_call(rows, name, args, kwargs)
        return self._called(rows)

    def get_attr(self, name: str, env_ids: Any = None) -> tuple[Any, ...]:
        """An attribute of every environment, or of some."""
        self._check_idle("call_async")
        rows = rows_of(env_ids, self.num_envs)
        self._begin_call(rows, name, (), {}, is_read=True)
        return self._called(rows)

    def render(self) -> tuple[Any, ...]:
        """What every environment renders."""
        return self.get_attr("render")

    def set_attr(self, name: str, values: Any, env_ids: Any = None) -> None:
        """Set an attribute of every environment, or of some.

        A list or tuple has one value for each, anything else is for all.
        """
        if self._session.pending == "set_attr":
            self._finish_stalled()
        self._check_idle("set_attr")
        rows = rows_of(env_ids, self.num_envs)
        if not isinstance(values, list | tuple):
            values = [values] * len(rows)
        if len(values) != len(rows):
            raise ConfigurationError(
                "Values must be a list or tuple with length equal to the number of environments. "
                f"Got `{len(values)}` values for {len(rows)} environments."
            )
        by_row = dict(zip(rows, values, strict=True))
        session = self._session
        assignments = {
            worker: Assignment(its, name, [by_row[row] for row in its])
            for worker, its in session.pool.shares(rows).items()
        }
        session.begin("set_attr", Op.SET_ATTR, assignments)
        session.finish("set_attr", session.raise_failures)

    def _begin_call(
        self,
        rows: list[int],
        name: str | Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        is_read: bool = False,
    ) -> None:
        by_worker = self._pool.shares(rows)
        calls = {worker: Call(its, name, args, kwargs, is_read) for worker, its in by_worker.items()}
        self._session.begin("call", Op.CALL, calls)

    def _called(self, rows: list[int], timeout: float | None = None) -> tuple[Any, ...]:
        def results(outcome: Outcome) -> tuple[Any, ...]:
            self._session.raise_failures(outcome)
            values = dict(outcome.values)
            return tuple(values[row] for row in rows)

        self._check_open()
        return self._session.finish("call", results, timeout)

    def _ask_of(self, rows: list[int], function: Callable[..., Any]) -> tuple[Any, ...]:
        """Call a function of these environments, of which some may have arrived and not been received."""
        self._session.flights.land()
        self._begin_call(rows, function, (), {}, is_read=True)
        return self._called(rows)

    # -- first-ready -------------------------------------------------------------------------------------------------

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Let these environments, or all of them, take a step each. Returns at once.

        Args:
            actions: one for each environment in ``env_ids``, arranged as for ``step``. A batch that does not fit is refused
                whole, before anything is sent.
            env_ids: indices, or a mask. None of them may have been sent and not received.
        """
        self._check_not_pending("send")
        self._send(actions, rows_of(env_ids, self.num_envs), Pace.ALONE)

    def _send(self, actions: Any, rows: list[int], pace: Pace) -> None:
        self._consult()
        session = self._session
        session.flights.check_departure(rows)
        self._check_ready(rows)
        session.send(Op.STEP_EACH, session.steps(rows, *self._write_actions(actions, rows), pace), rows)

    def send_reset(
        self, env_ids: Any = None, *, seed: Seeds = None, options: Options = None, group_ids: Any = None
    ) -> None:
        """Let these environments, or all of them, begin a new episode, each with its own task. Returns at once.

        Args:
            env_ids: indices, or a mask. They may be in the middle of an episode, but not under way.
            seed: a number, to which each adds its index (or its group's), or one for each.
            options: a dictionary for all of them, or one for each.
            group_ids: whole groups, instead of ``env_ids``; seeds and options are then one for each group.
        """
        self._check_not_pending("send_reset")
        self._consult()
        session, rows = self._session, self._tasks.rows_of(env_ids, group_ids)
        session.flights.check_departure(rows)
        session.send(Op.RESET_EACH, session.resets(self._tasks.resets(rows, seed, options)), rows)
        self._tasks.groups.expect(rows)

    def recv(
        self, min_envs: int = 1, timeout: float | None = None, max_envs: int | None = None, *, env_ids: Any = None
    ) -> Batch:
        """Wait until ``min_envs`` environments are back, and return all that are, in the order of their arrival.

        Args:
            min_envs: how many to wait for.
            timeout: seconds to wait at most; afterwards :class:`WaitTimeout` is raised. Nothing is lost: call again.
            max_envs: return no more than so many; the others stay for the next time.
            env_ids: instead of whoever is first, exactly these environments, in this order.

        If an environment raised, its exception is raised here. The others stay for the next time.
        """
        if env_ids is not None:
            return self._recv_exactly(rows_of(env_ids, self.num_envs), timeout)
        self._check_not_pending("recv")
        return self._receive(self._session.flights.wanted(min_envs, max_envs), seconds_to_wait(timeout))

    def _recv_exactly(self, rows: list[int], timeout: float | None) -> Batch:
        self._check_not_pending("recv")
        return self._receive(self._session.flights.wanted_exactly(rows), seconds_to_wait(timeout))

    def _receive(self, wanted: Wanted, timeout: float | None) -> Batch:
        def results(outcomes: dict[int, Outcome]) -> Batch:
            batch = self._batch(outcomes)
            has_begun = flights.have_begun(outcomes)
            if auto is not None:
                auto.note_some(len(outcomes), batch.info, has_begun=has_begun)
            return batch

        auto, flights = self._auto, self._session.flights
        return self._session.receive(wanted, results, timeout)

    async def arecv(self, min_envs: int = 1, timeout: float | None = None, max_envs: int | None = None) -> Batch:
        """As :meth:`recv`, for asyncio programs: others run while it waits. One at a time."""
        self._check_not_pending("arecv")
        if self._is_receiving:
            raise AlreadyPending("another `arecv` is waiting; one at a time, or its results would be divided", "recv")
        wanted, timeout = self._session.flights.wanted(min_envs, max_envs), seconds_to_wait(timeout)
        self._is_receiving = True
        try:
            await wait_in_loop(self._session, wanted, timeout)
        finally:
            self._is_receiving = False
        return self._receive(wanted, None)

    def is_ready(self, env_ids: Any = None) -> Array:
        """Which of these environments, or of all, are back and wait for :meth:`recv`. Does not wait."""
        self._check_not_pending("is_ready")
        rows, flights = rows_of(env_ids, self.num_envs), self._session.flights
        flights.look()
        return np.array([flights.has_arrived(row) for row in rows], dtype=np.bool_)

    @property
    def num_under_way(self) -> int:
        """How many environments have been sent and not received."""
        return self._session.flights.num_under_way

    def record_arrivals(self) -> Recording:
        """Write down who is handed over by every ``recv`` from now on, into the list that is returned.

        It is a list of lists of numbers, which JSON can hold. :meth:`replay_arrivals` plays it back.
        """
        return self._session.flights.record()

    def replay_arrivals(self, recording: Sequence[Sequence[int]]) -> None:
        """Hand over exactly who was handed over when ``recording`` was made, in the same order; afterwards as usual.

        The size of batches comes from the recording too. So a program that does the same as the recorded one gets
        the same results, however fast its environments are today.
        """
        self._check_not_pending("replay_arrivals")
        self._session.flights.replay(recording)

    # -- saving and branching ----------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where all environments are, as a dictionary of plain values that can be pickled.

        :meth:`load_state_dict` of environments made in the same way, in this process or another, on any backend and with any
        number of workers, goes on from there. It holds pickled data: load only what you trust.
        """
        self._check_can_branch("state_dict")
        return saved(self._session, self._kind())

    def load_state_dict(self, state: Mapping[str, Any]) -> Any:
        """Go on from what :meth:`state_dict` has saved; returns the observations of then, as ``reset`` does.

        All environments are made anew and do again what those that were saved have done; where one of them comes to
        something else, :class:`ReplayDiverged` is raised.
        """
        self._check_can_branch("load_state_dict")
        load(self._session, state, self._kind())
        return self._all_observations()

    def fork(self, env_id: int, to_ids: Any) -> None:
        """Bring the environments ``to_ids`` to exactly where environment ``env_id`` is now.

        Each of them then goes on by itself: with the same actions they do the same, with others they branch. What
        observations, rewards and flags say of them is what they said of ``env_id``.
        """
        self._check_can_branch("fork")
        (source,) = rows_of([env_id], self.num_envs, "env_id")
        rows = [row for row in rows_of(to_ids, self.num_envs, "to_ids") if row != source]
        self._check_ready([source])
        branch(self._session, source, rows)
        self._readiness.begin(rows)
        self._tasks.groups.expect(rows)

    def _check_can_branch(self, name: str) -> None:
        self._check_idle(name)
        auto = self._auto
        if auto is not None:
            auto.keep_journal()
            if auto.move is not None and name != "state_dict":
                self._go_on_in(auto, auto.finish_move)

    # -- closing -----------------------------------------------------------------------------------------------------

    def _close_session(self, timeout: float | None, terminate: bool) -> None:
        seconds = seconds_to_wait(timeout)
        if self._session.is_forgotten:
            gymnasium.logger.warn(
                f"Calling `close` while waiting for a pending call to `{self._session.pending}` to complete."
            )
        grace = 0.0 if terminate else CLOSE_SECONDS if seconds is None else seconds
        for auto in (self._auto, self._former_auto):
            if auto is not None:
                auto.close(grace)
        closed = None
        while closed is not self._session:  # another thread may have been about to move the environments to another one
            closed = self._session
            closed.close(grace)

    # -- what all of it stands on ------------------------------------------------------------------------------------

    @property
    def _pool(self) -> Pool:
        return self._session.pool

    def _check_open(self) -> None:
        if self.closed:
            raise Closed(f"Trying to operate on `{type(self).__name__}`, after a call to `close()`.")
        self._session.pool.check_owner()

    def _check_not_pending(self, name: str) -> None:
        self._check_open()
        self._session.check_not_pending(name)

    def _check_idle(self, name: str) -> None:
        self._check_open()
        self._session.check_idle(name)

    def _finish_stalled(self) -> None:
        """Finish a call that could not be finished, whose results are not asked for any more."""
        session = self._session
        if session.pending is not None and session.stalled is not None:
            wait = getattr(self, f"{session.pending}_wait", None)
            if wait is None:
                session.finish(session.pending, session.raise_failures)
            else:
                wait()

    # -- where environments run --------------------------------------------------------------------------------------

    @property
    def _is_undecided(self) -> bool:
        """Whether it is still open where environments will run."""
        return self._auto is not None and self._auto.is_undecided

    def _consult(self) -> None:
        """Between two steps, and not after one: what goes wrong here must not cost results."""
        auto, profiler = self._auto, self._profiler
        if auto is None or self.closed or self._session.pending is not None or not auto.is_due:
            return
        if profiler is not None and profiler.is_attached:
            return
        self._session.pool.check_usable()
        self._go_on_in(auto, auto.between_steps)

    def _go_on_in(self, auto: Autopilot, decided: Callable[[Session, Form], Session | None]) -> None:
        """Go on in the session that was decided on, if that is another one, or has other memory."""
        with postponed, forbidden:  # halfway there would be nowhere
            session = decided(self._session, self._form)
            if session is not None:
                self._session = session
                self._settle_in()
            if auto.is_over:
                self._auto, self._former_auto = None, auto
        auto.settle()

    def _timed(self, step: Callable[[], Any]) -> Any:
        """Take a step of all environments, whose time matters to where they run."""
        self._consult()
        begin = perf_counter()
        results = step()
        if self._auto is not None:
            self._auto.note_step(self._session, perf_counter() - begin, results[-1])
        return results

    # -- what a face adds --------------------------------------------------------------------------------------------

    def _settle_in(self) -> None:
        """Make what writes into the session, or knows it closely. It may be another one than before."""
        raise NotImplementedError

    def _check_ready(self, rows: list[int]) -> None:
        """Refuse to step environments that have to be reset first."""
        raise NotImplementedError

    def _write_actions(self, actions: Any, rows: list[int]) -> tuple[LooseValues, tuple[int, ...]]:
        """Check the actions and write them where the runners find them."""
        raise NotImplementedError

    def _batch(self, outcomes: dict[int, Outcome]) -> Batch:
        """The results of these environments."""
        raise NotImplementedError

    def _kind(self) -> str:
        """What kind of environments these are, in words that differ if they do."""
        raise NotImplementedError

    def _all_observations(self) -> Any:
        """As a reset returns them."""
        raise NotImplementedError
