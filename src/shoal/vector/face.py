"""What every face of a pool has in common: starting it, asking its environments, closing it, and refusing what does not fit.

::

    ParallelEnv (batched arrays, Gymnasium's contract)      EnvList (different worlds, lists)
                         └──────────────── Face ────────────────┘
                                             │
                                           Pool

What may be asked for, in which state::

                   reset()                 step_async()
    made ─────────────────────▶ ready ◀─────────────────▶ pending
      └─ reset_async() ─▶ pending ─ reset_wait() ─▶ ready        any ─ close() ─▶ closed
"""

from __future__ import annotations

import pickle
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium

from shoal.vector.arguments import seconds_to_wait
from shoal.vector.caller import warn_caller
from shoal.vector.engine import Engine, care_of
from shoal.vector.errors import (
    AlreadyPending,
    CannotStart,
    Closed,
    ConfigurationError,
    NothingPending,
    ShoalError,
    WaitTimeout,
)
from shoal.vector.failures import raise_failures
from shoal.vector.flights import Flights
from shoal.vector.isolation import IsolatedFactory
from shoal.vector.messages import Assignment, Call, EnvFn, Op, Outcome
from shoal.vector.plan import Plan, make_plan, needs_processes
from shoal.vector.pool import OnReply, Pool
from shoal.vector.supervisor import Supervisor
from shoal.vector.tasks import rows_of
from shoal.vector.wards import Stats

if TYPE_CHECKING:
    from shoal.vector.profile import Profiler

CLOSE_SECONDS = 5.0
Given = TypeVar("Given")


class Face:
    """A pool, and what may be done with it now."""

    num_envs: int
    closed: bool
    plan: Plan
    """Which backend and how many workers, and why."""
    step_timeout: float | None
    _profiler: Profiler | None = None

    def _start(self, env_fns: Sequence[EnvFn], engine: Engine) -> None:
        self.closed = True  # until there is something to close
        self.env_fns = list(env_fns)
        check_factories(self.env_fns)
        self.num_envs = len(self.env_fns)
        self.plan = make_plan(self.num_envs, engine)
        care = care_of(engine, self.plan.backend)
        self.on_fault, self.step_timeout = care.on_fault, care.deadlines.step
        self._pending: str | None = None
        self._begun_by = 0
        """The thread that has begun what is pending."""
        self._wait_timed_out = False
        self._stalled: bytes | None = None
        """What was asked when a worker could not be replaced yet, so that a call is waited for that is pending."""
        if engine.isolate_rng:
            is_here = not needs_processes(self.plan.backend)
            env_fns = [
                IsolatedFactory(env_fn, row, is_here or row in self.plan.local_envs)
                for row, env_fn in enumerate(self.env_fns)
            ]
        try:
            self._pool = Pool(env_fns, self.plan, care, pin_workers=engine.pin_workers)
        except CannotStart as error:
            if engine.backend != "auto":
                raise
            warnings.warn(
                f"all environments run in this process, one after the other: {error}", RuntimeWarning, stacklevel=4
            )
            self._start(self.env_fns, replace(engine, backend="serial", num_workers=None))
            self.plan = replace(self.plan, reason=f"no worker process could be started ({error})")
            return
        self._access = self._pool.access
        self._flights = Flights(self._pool)
        # Closes when this object is collected or the program ends, whichever comes first.
        self._finalizer = weakref.finalize(self, self._pool.close, 1.0, quietly=True)

    # -- asking environments -------------------------------------------------------------------------------------

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
        return self._called(rows, None)

    def _begin_call(
        self,
        rows: list[int],
        name: str | Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        is_read: bool = False,
    ) -> None:
        calls = {worker: Call(its, name, args, kwargs, is_read) for worker, its in self._by_worker(rows).items()}
        self._begin("call", Op.CALL, calls)

    def get_attr(self, name: str, env_ids: Any = None) -> tuple[Any, ...]:
        """An attribute of every environment, or of some."""
        return self._read(name, env_ids)

    def _read(self, name: str, env_ids: Any = None) -> tuple[Any, ...]:
        """As :meth:`call`, for what changes nothing."""
        self._check_idle("call_async")
        rows = rows_of(env_ids, self.num_envs)
        self._begin_call(rows, name, (), {}, is_read=True)
        return self._called(rows, None)

    def _called(self, rows: list[int], timeout: float | None) -> tuple[Any, ...]:
        def results(outcome: Outcome) -> tuple[Any, ...]:
            self._raise_failures(outcome)
            values = dict(outcome.values)
            return tuple(values[row] for row in rows)

        return self._finish("call", results, timeout)

    def set_attr(self, name: str, values: Any, env_ids: Any = None) -> None:
        """Set an attribute of every environment, or of some.

        A list or tuple has one value for each, anything else is for all.
        """
        if self._pending == "set_attr":
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
        assignments = {
            worker: Assignment(its, name, [by_row[row] for row in its]) for worker, its in self._by_worker(rows).items()
        }
        self._begin("set_attr", Op.SET_ATTR, assignments)
        self._finish("set_attr", self._raise_failures)

    def render(self) -> tuple[Any, ...]:
        """What every environment renders."""
        return self._read("render")

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
        """How many workers were replaced, and what that cost."""
        self._check_open()
        backend = self._pool.backend
        if not isinstance(backend, Supervisor):
            return Stats()
        return replace(backend.stats, dropped_replies=getattr(backend.backend, "dropped_replies", 0))

    @property
    def worker_envs(self) -> tuple[range, ...]:
        """The environments of each worker, or of this process where there are no workers."""
        self._check_open()
        return tuple(self._pool.rows)

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The worker processes, in the order of their environments; none where environments run in this process."""
        self._check_open()
        pid_of = getattr(self._pool.unwatched, "pid", None)
        return () if pid_of is None else tuple(pid_of(worker) for worker in range(self._pool.backend.num_workers))

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

    def _ask_of(self, rows: list[int], function: Callable[..., Any]) -> tuple[Any, ...]:
        """Call a function of these environments, of which some may have arrived and not been received."""
        self._flights.land()
        self._begin_call(rows, function, (), {}, is_read=True)

        def results(outcome: Outcome) -> tuple[Any, ...]:
            self._raise_failures(outcome)
            return tuple(value for _, value in outcome.values)

        return self._finish("call", results)

    @property
    def _is_undecided(self) -> bool:
        """Whether it is still open where environments will run."""
        return False

    # -- closing -------------------------------------------------------------------------------------------------

    def _close_pool(self, timeout: float | None, terminate: bool) -> None:
        seconds = seconds_to_wait(timeout)
        # Another thread that waits for it learns of the end by an exception.
        is_forgotten = self._pending is not None and self._begun_by == threading.get_ident()
        if is_forgotten and not self._wait_timed_out:
            gymnasium.logger.warn(f"Calling `close` while waiting for a pending call to `{self._pending}` to complete.")
        closed = None
        while closed is not self._pool:  # another thread may have been about to move the environments to a new one
            closed = self._pool
            closed.close(0.0 if terminate else CLOSE_SECONDS if seconds is None else seconds)
            self._finalizer.detach()

    # -- what all of it stands on --------------------------------------------------------------------------------

    def _by_worker(self, rows: Sequence[int]) -> dict[int, list[int]]:
        """These environments by who runs them, in the given order."""
        by_worker: dict[int, list[int]] = {}
        worker_of = self._pool.worker_of
        for row in rows:
            by_worker.setdefault(worker_of[row], []).append(row)
        return by_worker

    def _check_open(self) -> None:
        if self.closed:
            raise Closed(f"Trying to operate on `{type(self).__name__}`, after a call to `close()`.")
        self._pool.check_owner()

    def _check_not_pending(self, name: str) -> None:
        self._check_open()
        if self._pending is not None:
            raise AlreadyPending(
                f"Calling `{name}` while waiting for a pending call to `{self._pending}` to complete. "
                f"Call `{self._pending}_wait` first.",
                self._pending,
            )

    def _check_idle(self, name: str) -> None:
        self._check_not_pending(name)
        if self._flights:
            raise AlreadyPending(
                f"Calling `{name}` while environments {self._flights.not_handed_over()} have been sent and not received. "
                "Call `recv` until all of them are back.",
                "send",
            )

    def _is_asked_again(self, name: str, asked: Any) -> bool:
        """Whether a call that could not be finished is made once more, and its results have only to be waited for."""
        return self._pending == name and bool(self._stalled) and self._stalled == _as_bytes(asked)

    def _finish_stalled(self) -> None:
        """Finish a call that could not be finished, whose results are not asked for any more."""
        if self._pending is not None and self._stalled is not None:
            wait = getattr(self, f"{self._pending}_wait", None)
            if wait is None:
                self._finish(self._pending, self._raise_failures)
            else:
                wait()

    def _begin(self, name: str, op: Op, payloads: Mapping[int, Any] | None) -> None:
        with self._access:
            self._pool.begin(op, payloads)
            self._pending, self._wait_timed_out, self._begun_by = name, False, threading.get_ident()
            self._stalled = None

    def _finish(
        self,
        name: str,
        results_of: Callable[[Outcome], Given],
        timeout: float | None = None,
        on_reply: OnReply | None = None,
        asked: Any = None,
    ) -> Given:
        """Wait for what was begun, and return its results."""
        self._check_open()
        if self._pending != name:
            raise NothingPending(f"Calling `{name}_wait` without any prior call to `{name}_async`.", name)
        timeout, began = seconds_to_wait(timeout), time.monotonic()
        with self._access:
            try:
                results = results_of(self._pool.finish(timeout, on_reply))
            except BaseException as error:
                self._interrupted_by(error, asked)
                raise
        # Not before: what the handler of a signal has raised at the end of the access leaves the results to the next wait.
        self._pending = None
        if timeout is not None and self.plan.backend == "serial" and time.monotonic() - began > timeout:
            warn_caller(
                f'timeout={timeout:g} has no effect with backend="serial": environments do their work in this process, while '
                'they are waited for. Use backend="shm" or "pipes".'
            )
        return results

    def _interrupted_by(self, error: BaseException, asked: Any = None) -> None:
        """Decide what can still be waited for after a wait that raised. ``asked``: what the call was given."""
        is_stalled = isinstance(error, CannotStart)
        self._wait_timed_out = isinstance(error, WaitTimeout) or is_stalled
        # What is not an error of ours was raised by the handler of a signal, such as Ctrl-C.
        is_interrupt = not isinstance(error, ShoalError)
        may_go_on = is_stalled or (is_interrupt and self.plan.backend != "serial")
        if isinstance(error, WaitTimeout) or (may_go_on and not self._pool.is_idle):
            # The environments go on: wait again.
            self._stalled = (_as_bytes(asked) if asked is not None else self._stalled or b"") if is_stalled else None
            return
        self._pending = None
        if is_interrupt:
            self._abandoned()

    def _abandoned(self) -> None:
        """Some environments have taken the step and some have not, so none may go on from here."""

    def _raise_failures(self, outcome: Outcome) -> None:
        if outcome.failures:
            raise_failures(outcome.failures, self._pool.where(min(f.env_index for f in outcome.failures)))


def _as_bytes(asked: Any) -> bytes:
    """The same for what is the same; empty where that cannot be told."""
    try:
        return pickle.dumps(asked)
    except Exception:
        return b""


def check_factories(env_fns: Sequence[EnvFn]) -> None:
    """Refuse what cannot make environments."""
    if not env_fns:
        raise ConfigurationError("env_fns is empty: at least one environment is needed")
    for index, env_fn in enumerate(env_fns):
        if not callable(env_fn):
            raise ConfigurationError(f"env_fns[{index}] is not a callable that makes an environment: got {env_fn!r}")
