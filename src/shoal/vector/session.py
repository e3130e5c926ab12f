"""A session: one pool of running environments, its arena and its reader, and what is in flight.

A face holds one::

    ParallelEnv (batched arrays, Gymnasium's contract)      EnvList (different worlds, lists)
                         └──────────────── Face ────────────────┘
                                             │ holds
                                          Session
                            ┌────────────────┼───────────────┐
                          Pool             Arena           Flights

To move environments elsewhere, another session is built, does what this one has done, and takes its place (``auto/moving.py``).

There are two ways to ask. In lockstep, ``begin`` asks some or all environments, and ``finish`` gives their results. Or they are
sent off, each for itself, with ``send``, and ``receive`` gives the results of those that are back.
"""

from __future__ import annotations

import pickle
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from shoal.vector.arguments import seconds_to_wait
from shoal.vector.caller import warn_caller
from shoal.vector.engine import Engine, care_of
from shoal.vector.errors import AlreadyPending, CannotStart, NothingPending, ShoalError, WaitTimeout
from shoal.vector.failures import raise_failures
from shoal.vector.flights import Flights, Wanted
from shoal.vector.isolation import IsolatedFactory
from shoal.vector.layout import Arena, Array, Rows
from shoal.vector.loose import LooseValues, shared_out
from shoal.vector.messages import Attachment, EnvFn, Op, Outcome, Pace, Reset, Steps
from shoal.vector.observations import ObservationReader
from shoal.vector.plan import make_plan, needs_processes
from shoal.vector.pool import OnReply, Pool
from shoal.vector.readiness import Readiness
from shoal.vector.supervisor import Supervisor
from shoal.vector.tasks import TaskSource

Given = TypeVar("Given")


@dataclass(frozen=True)
class Form:
    """How a face wants actions and results to be laid out, and what happens when an episode ends."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    autoreset_mode: AutoresetMode
    task_source: TaskSource | None
    group_size: int = 1
    num_slots: int = 1
    lends_observations: bool = False
    """Whether the caller gets views of where observations are."""
    duplicate: Callable[[Array], Array] = np.ndarray.copy
    """How results are copied for the caller."""


class Session:
    """Environments that run somewhere."""

    arena: Arena
    observations: ObservationReader
    readiness: Readiness

    def __init__(self, env_fns: Sequence[EnvFn], engine: Engine, *, entropy: int | None = None) -> None:
        """Nothing runs before :meth:`start`. ``entropy``: as of :class:`Pool`."""
        self.num_envs = len(env_fns)
        self.plan = make_plan(self.num_envs, engine)
        """Which backend and how many workers, and why."""
        care = care_of(engine, self.plan.backend)
        self.on_fault, self.step_timeout = care.on_fault, care.deadlines.step
        if engine.isolate_rng:
            is_here = not needs_processes(self.plan.backend)
            env_fns = [
                IsolatedFactory(env_fn, row, is_here or row in self.plan.local_envs)
                for row, env_fn in enumerate(env_fns)
            ]
        self.pool = Pool(env_fns, self.plan, care, pin_workers=engine.pin_workers, entropy=entropy)
        self.access = self.pool.access
        self.flights = Flights(self.pool)
        self.has_sent = False
        """Whether environments have ever been sent off, so that some may be under way."""
        self.pending: str | None = None
        """What was begun and is not finished."""
        self.wait_timed_out = False
        self.stalled: bytes | None = None
        """What was asked when a worker could not be replaced yet, so that a call is waited for that is pending."""
        self._begun_by = 0
        """The thread that has begun what is pending."""
        # Closes when this object is collected or the program ends, whichever comes first.
        self._finalizer = weakref.finalize(self, self.pool.close, 1.0, quietly=True)

    def start(self) -> None:
        """Make all environments. May take long."""
        self.pool.start()

    def furnish(self, form: Form) -> None:
        """Lay out the arena, and what reads it."""
        attachment = Attachment(
            form.observation_space,
            form.action_space,
            self.num_envs,
            form.autoreset_mode,
            form.task_source,
            num_slots=form.num_slots,
            lends_observations=form.lends_observations,
            group_size=form.group_size,
        )
        self.layout = attachment.layout
        self.arena = self.pool.attach(attachment)
        self.observations = ObservationReader(self.layout, self.arena, form.duplicate)

    @property
    def supervisor(self) -> Supervisor | None:
        """Who watches the workers, and keeps a journal of what environments are asked."""
        backend = self.pool.backend
        return backend if isinstance(backend, Supervisor) else None

    def relieve(self, form: Form) -> None:
        """No longer write anything down, where nobody dies alone."""
        supervisor = self.supervisor
        assert supervisor is not None
        self.flights.land()  # what is under way here has been written into the arena that goes
        results, loose = [array.copy() for array in self.arena.results], self.observations.loose_values()
        self.pool.backend = supervisor.relieved()
        self.on_fault = "raise"
        self.furnish(form)
        for target, source in zip(self.arena.results, results, strict=True):
            target[:] = source
        self.observations.update(loose)

    def follow_on(self, other: Session, group_size: int) -> None:
        """Take the place of another session, whose environments are the same, are where these are, and have nothing to do."""
        mine, its = self.supervisor, other.supervisor
        assert mine is not None
        assert its is not None
        self.pool.follow_on(other.pool)
        mine.follow_on(its, group_size)
        self.observations.update(other.observations.loose_values())
        self.flights.take_over(other.flights)
        self.readiness, self.has_sent = other.readiness, other.has_sent

    # -- in lockstep -------------------------------------------------------------------------------------------------

    def begin(self, name: str, op: Op, payloads: Mapping[int, Any] | None) -> None:
        """Ask workers for something; :meth:`finish` gives the results."""
        with self.access:
            self.pool.begin(op, payloads)
            self.note_begun(name)
            self.wait_timed_out, self.stalled = False, None

    def note_begun(self, name: str) -> None:
        """Something is pending from now on."""
        self.pending, self._begun_by = name, threading.get_ident()

    def finish(
        self,
        name: str,
        results_of: Callable[[Outcome], Given],
        timeout: float | None = None,
        on_reply: OnReply | None = None,
        asked: Any = None,
    ) -> Given:
        """Wait for what was begun, and return its results. ``asked``: what the call was given, if it may be made again."""
        if self.pending != name:
            raise NothingPending(f"Calling `{name}_wait` without any prior call to `{name}_async`.", name)
        timeout, began = seconds_to_wait(timeout), time.monotonic()
        with self.access:
            try:
                results = results_of(self.pool.finish(timeout, on_reply))
            except BaseException as error:
                self.interrupted_by(error, asked)
                raise
        # Not before: what the handler of a signal has raised at the end of the access leaves the results to the next wait.
        self.pending = None
        if timeout is not None and self.plan.backend == "serial" and time.monotonic() - began > timeout:
            warn_caller(
                f'timeout={timeout:g} has no effect with backend="serial": environments do their work in this process, while '
                'they are waited for. Use backend="shm" or "pipes".'
            )
        return results

    def perform(
        self,
        name: str,
        op: Op,
        payloads: Mapping[int, Any] | None,
        results_of: Callable[[Outcome], Given],
        on_reply: OnReply | None = None,
        asked: Any = None,
    ) -> Given:
        """Begin and finish in one go, which is quicker. To be called inside the access; ``pending`` is left to the caller."""
        self.note_begun(name)
        try:
            return results_of(self.pool.perform(op, payloads, on_reply))
        except BaseException as error:
            self.interrupted_by(error, asked)
            raise

    def interrupted_by(self, error: BaseException, asked: Any = None) -> None:
        """Decide what can still be waited for after a wait that raised."""
        is_stalled = isinstance(error, CannotStart)
        self.wait_timed_out = isinstance(error, WaitTimeout) or is_stalled
        # What is not an error of ours was raised by the handler of a signal, such as Ctrl-C.
        is_interrupt = not isinstance(error, ShoalError)
        may_go_on = is_stalled or (is_interrupt and self.plan.backend != "serial")
        if isinstance(error, WaitTimeout) or (may_go_on and not self.pool.is_idle):
            # The environments go on: wait again.
            self.stalled = (_as_bytes(asked) if asked is not None else self.stalled or b"") if is_stalled else None
            return
        self.pending = None
        if is_interrupt:
            self.readiness.give_up_all()

    def is_asked_again(self, name: str, asked: Any) -> bool:
        """Whether a call that could not be finished is made once more, and its results have only to be waited for."""
        return self.pending == name and bool(self.stalled) and self.stalled == _as_bytes(asked)

    # -- first-ready -------------------------------------------------------------------------------------------------

    def send(self, op: Op, payloads: Mapping[int, Any], rows: list[int]) -> None:
        """Let these environments do something, each for itself."""
        with self.access:
            self.has_sent = True
            self.pool.send(op, payloads)
            if op is Op.RESET_EACH:
                self.readiness.begin(rows)
            self.flights.depart(rows, begins=op is Op.RESET_EACH)

    def receive(
        self, wanted: Wanted, results_of: Callable[[dict[int, Outcome]], Given], timeout: float | None = None
    ) -> Given:
        """Wait for some that were sent, and hand over their results."""
        with self.access:
            self.flights.wait(wanted, timeout)
        outcomes: dict[int, Outcome] | None = None
        try:
            with self.access:
                failed = self.flights.failed(wanted)
                if failed is not None:
                    self.readiness.give_up(failure.env_index for failure in failed.failures)
                    self.raise_failures(failed)
                chosen = self.flights.chosen(wanted)
                results = results_of(chosen)
                self.flights.hand_over(chosen)
                outcomes = chosen
        except BaseException:
            if outcomes is not None:  # raised by the handler of a signal: they are still to be received
                self.flights.take_back(outcomes)
            raise
        return results

    # -- what both stand on ------------------------------------------------------------------------------------------

    def steps(
        self, rows: list[int], loose: LooseValues, wide: tuple[int, ...], pace: Pace = Pace.ALONE
    ) -> dict[int, Steps]:
        """For each worker the steps of its environments."""
        return self._steps(self.pool.shares(rows), loose, wide, pace)

    def steps_of_all(self, loose: LooseValues, wide: tuple[int, ...]) -> dict[int, Steps] | None:
        """The same for all environments; ``None`` where there is nothing to say beside what is in the arena."""
        if not loose and not wide:
            return None
        return self._steps(dict(enumerate(self.pool.rows)), loose, wide, Pace.ALONE)

    def _steps(
        self, shares: Mapping[int, Rows], loose: LooseValues, wide: tuple[int, ...], pace: Pace
    ) -> dict[int, Steps]:
        own = shared_out(loose, shares, self.pool.worker_of)
        return {worker: Steps(its, own[worker], wide, pace) for worker, its in shares.items()}

    def resets(self, resets: Sequence[Reset]) -> dict[int, list[Reset]]:
        """For each worker the resets of its environments."""
        by_worker: dict[int, list[Reset]] = {}
        worker_of = self.pool.worker_of
        for reset in resets:
            by_worker.setdefault(worker_of[reset.env_index], []).append(reset)
        return by_worker

    def check_not_pending(self, name: str) -> None:
        """Refuse a call in the middle of another one."""
        if self.pending is not None:
            raise AlreadyPending(
                f"Calling `{name}` while waiting for a pending call to `{self.pending}` to complete. "
                f"Call `{self.pending}_wait` first.",
                self.pending,
            )

    def check_idle(self, name: str) -> None:
        """Refuse a call while environments have something to do, or have not been received."""
        self.check_not_pending(name)
        if self.flights:
            raise AlreadyPending(
                f"Calling `{name}` while environments {self.flights.not_handed_over()} have been sent and not received. "
                "Call `recv` until all of them are back.",
                "send",
            )

    def raise_failures(self, outcome: Outcome) -> None:
        """Raise what environments have raised."""
        if outcome.failures:
            raise_failures(outcome.failures, self.pool.where(min(f.env_index for f in outcome.failures)))

    @property
    def is_forgotten(self) -> bool:
        """Whether this thread has begun something, and has not waited for it."""
        # Another thread that waits for it learns of the end by an exception.
        return self.pending is not None and self._begun_by == threading.get_ident() and not self.wait_timed_out

    def close(self, grace: float, *, quietly: bool = False) -> None:
        """End everything, within about ``grace`` seconds."""
        self.pool.close(grace, quietly=quietly)
        self._finalizer.detach()
        # What refers to the arena keeps its memory, and a descriptor, alive.
        for name in ("arena", "observations"):
            self.__dict__.pop(name, None)


def _as_bytes(asked: Any) -> bytes:
    """The same for what is the same; empty where that cannot be told."""
    try:
        return pickle.dumps(asked)
    except Exception:
        return b""
