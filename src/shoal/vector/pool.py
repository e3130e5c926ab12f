"""The pool: N environments by index, on some backend.

It decides which worker has which environments, starts them, hands out commands and gathers what comes back. Every face
(batched arrays, lists, other libraries' interfaces) stands on it.

There are two ways to ask. In lockstep a command goes to all workers that have something to do, under one sequence number,
and is finished when each of them has replied: ``begin`` returns at once; ``finish`` waits, and may be called again after a
wait that ended early. Or environments are sent off, each for itself: ``send`` returns at once, and ``arrivals`` gives those
that are back.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from shoal.vector.access import Access
from shoal.vector.backends import Backend, Recipe, make_backend
from shoal.vector.backends.serial import SerialBackend
from shoal.vector.engine import Care
from shoal.vector.errors import CannotStart, ProtocolError, ShoalError, WaitTimeout, WorkerDied, WorkerError
from shoal.vector.failures import raise_failures
from shoal.vector.forked import HERE
from shoal.vector.halves import Half
from shoal.vector.interrupts import NotPostponed, postponed
from shoal.vector.layout import Arena, Rows
from shoal.vector.messages import (
    STEP,
    STEP_EACH,
    Arrival,
    Arrivals,
    Attachment,
    Census,
    Command,
    Death,
    EnvFn,
    Event,
    Op,
    Outcome,
    Reply,
)
from shoal.vector.partition import partition
from shoal.vector.plan import Plan
from shoal.vector.post_mortem import describe_death, last_words_of
from shoal.vector.supervisor import Supervisor

logger = logging.getLogger(__name__)


OnReply = Callable[[range], None]

LONGEST_WAIT_SECONDS = 0.1
"""Then a thread that waits looks whether the environments were closed."""
LONGEST_EVICTION_SECONDS = 1.0
"""For which close() waits in any case until other threads have seen that."""


class Pool:
    """N environments, running."""

    arena: Arena

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        plan: Plan,
        care: Care,
        *,
        pin_workers: bool,
        entropy: int | None = None,
    ) -> None:
        """Nothing runs before :meth:`start`.

        ``entropy``: of environments that are to do again what others have done. It seeds those that nobody seeds.
        """
        self.num_envs = len(env_fns)
        self._owner = HERE.pid
        self._sequence = 0
        self._op: Op | None = None
        self._waiting: set[int] = set()
        self._outcomes: dict[int, Outcome] = {}
        self._failed: WorkerError | None = None
        self._num_slots = 1
        self._closed = False
        self.access = Access(NotPostponed() if plan.backend == "serial" else postponed)
        shares = partition(self.num_envs, plan.num_workers, plan.local_envs, plan.step_costs)
        self.rows = [share.rows for share in shares]
        self._workers = range(len(shares))
        self._everybody = list(range(self.num_envs))
        self.worker_of = [worker for worker, rows in enumerate(self.rows) for _ in rows]
        self.entropy = (secrets.randbits(62) if entropy is None else entropy) if care.is_journaled else None
        recipes = [
            Recipe(rows, list(env_fns[rows.start : rows.stop]), self.entropy, plan.threads_per_worker)
            for rows in self.rows
        ]
        local = [worker for worker, share in enumerate(shares) if share.is_local]
        self.backend: Backend = make_backend(
            plan.backend, recipes, plan.start_method, local,
            pin_workers=pin_workers, construct_seconds=care.deadlines.construct,
        )  # fmt: skip
        if care.is_journaled or not self.backend.in_process:
            self.backend = Supervisor(self.backend, recipes, care)

    def start(self) -> None:
        """Start the workers, and make all environments. May take long, and be ended by :meth:`close` in another thread."""
        try:
            with self.access:
                self.backend.start()
                self.censuses = self._construct()
        except BaseException:
            self.close(grace=1.0)
            raise

    @property
    def unwatched(self) -> Any:
        """The backend itself, also where a supervisor stands before it: what only some kinds of them have is asked there."""
        return self.backend.backend if isinstance(self.backend, Supervisor) else self.backend

    def _construct(self) -> list[Census]:
        """Make all environments, in parallel, and learn what they are like."""
        self.begin(Op.CONSTRUCT)
        outcome = self.finish()
        if outcome.failures:
            raise_failures(outcome.failures, "")
        return [census for _, census in sorted(outcome.values, key=lambda entry: entry[0])]

    def attach(self, attachment: Attachment) -> Arena:
        """Lay out the arena for these spaces."""
        self._sequence += 1
        self._op, self._waiting, self._outcomes = Op.ATTACH, set(range(len(self.rows))), {}
        attachment = replace(attachment, has_sheet=self.unwatched.has_sheet)
        self.arena = self.backend.attach(attachment, self._sequence)
        self.finish()
        self._num_slots = attachment.num_slots
        self._sequence += -self._sequence % self._num_slots  # so that its remainder is the slot, which is 0 now
        return self.arena

    def follow_on(self, other: Pool) -> None:
        """Take the place of another pool: of the same environments, which have nothing to do."""
        self._sequence = other._sequence + -other._sequence % self._num_slots
        for array, source in zip(
            [*self.arena.results, self.arena.origins], [*other.arena.results, other.arena.origins], strict=True
        ):
            array[:] = source

    def begin(self, op: Op, payloads: Mapping[int, Any] | None = None) -> None:
        """Send a command: to every worker, or to those that have a payload."""
        self.check_usable()
        slot = self._advance(op)
        if payloads is None:
            command = Command(self._sequence, op)
            commands = [(worker, command) for worker in self._workers]
        else:
            commands = [(worker, Command(self._sequence, op, payload)) for worker, payload in payloads.items()]
        try:
            self.backend.post(commands)
        except BaseException as error:
            self._note_unsent(error, slot)
            raise
        self._op, self._waiting, self._outcomes = op, {worker for worker, _ in commands}, {}

    def _note_unsent(self, error: BaseException, slot: int) -> None:
        """A command has not been sent, or not to all."""
        self._op = None
        self._turn_back(slot)
        if not isinstance(error, ShoalError):
            self._failed = WorkerError(
                f"{type(error).__name__} interrupted the sending of a command: some workers have got it, others not."
            )

    def _advance(self, op: Op) -> int:
        """Take the next sequence number, and turn to the slot it means; returns the slot until now.

        Only a command that all observations come from goes to the next slot.
        """
        if self._num_slots == 1:
            self._sequence += 1
            return 0
        before = self.arena.slot
        if op in (Op.STEP, Op.RESET):
            self._sequence += 1
            slot = self._sequence % self._num_slots
            if op is Op.RESET:
                self.arena.carry_over(slot)
            self.arena.turn_to(slot)
        else:
            self._sequence += self._num_slots
        return before

    def _turn_back(self, slot: int) -> None:
        """Nothing was sent: the slot until now is the current one still."""
        if self._num_slots > 1:
            self.arena.turn_to(slot)
            self._sequence += (slot - self._sequence) % self._num_slots

    def send(self, op: Op, payloads: Mapping[int, Any]) -> None:
        """Send off the environments in these payloads, each for itself. None of them may be under way."""
        self.check_usable()
        self._sequence += self._num_slots
        self._op = op
        self.backend.post([(worker, Command(self._sequence, op, payload)) for worker, payload in payloads.items()])

    def order_half(self, half: Half) -> None:
        """As :meth:`send`, for a step of one half, where the backend steps at once."""
        self.check_usable()
        half.sequence = self._sequence = self._sequence + self._num_slots
        self._op = STEP_EACH
        self.backend.order_half(half)

    def arrivals(self, timeout: float | None, wanted: int = 1) -> list[Arrival | Arrivals]:
        """Wait until something happened, or ``timeout`` seconds, and return those that are back; perhaps nobody is.

        The caller waits for so many, and need not be told of fewer.
        """
        arrived: list[Arrival | Arrivals] = []
        for event in self._poll(timeout, wanted):
            if isinstance(event, Arrival | Arrivals):
                arrived.append(event)
            elif isinstance(event, Death):
                self._fail(self._died(event))
        return arrived

    def check_usable(self) -> None:
        """Raise if nothing more can be asked: after a failure, or in a forked process."""
        if self._failed is not None:
            raise type(self._failed)(f"{self._failed}\n  The environments can only be closed now.")
        self.check_owner()

    def check_owner(self) -> None:
        """Raise in a process that was forked from the one whose environments these are."""
        if HERE.pid != self._owner:
            raise ShoalError(
                f"these environments belong to process {self._owner} and cannot be used in a process forked from it. "
                "What to do: make others there; close() does nothing there, and is not needed"
            )

    def _poll(self, timeout: float | None, arrivals: int = 1) -> list[Event]:
        limit = LONGEST_WAIT_SECONDS if timeout is None else min(timeout, LONGEST_WAIT_SECONDS)
        try:
            events = self.backend.poll(limit, arrivals)
        except Exception as error:
            if self.access.is_shut:  # by a signal handler in the middle of the wait
                self.access.refuse()
            if isinstance(error, WorkerError) and not isinstance(error, CannotStart):  # then the next poll goes on
                self._fail(error)
            raise
        if self.access.is_shut:
            self.access.refuse()
        return events

    def perform(self, op: Op, payloads: Mapping[int, Any] | None, on_reply: OnReply | None = None) -> Outcome:
        """Begin and finish in one go."""
        if isinstance(self.backend, SerialBackend) and self._failed is None:
            self._advance(op)
            outcome = self.backend.perform(Command(self._sequence, op, None if payloads is None else payloads.get(0)))
            self._outcomes = {0: outcome}  # for `finish`, if the call is interrupted before the caller has its results
            return outcome
        if payloads is None and on_reply is None and op is STEP and self.backend.steps_at_once:
            return self._step_at_once()
        self.begin(op, payloads)
        return self.finish(None, on_reply)

    def _step_at_once(self) -> Outcome:
        """Begin and finish the ordinary step, without the detour over what else could happen."""
        self.check_usable()
        slot = self._advance(STEP)
        sequence, backend = self._sequence, self.backend
        # Noted before anybody is asked: whatever happens once all are, it is a step that was begun.
        self._op, self._waiting, self._outcomes = STEP, set(self._workers), {}
        try:
            backend.order_step(sequence)
        except BaseException as error:
            self._waiting = set()
            self._note_unsent(error, slot)
            raise
        try:
            outcome = backend.finish_step(sequence)
        except BaseException:
            if backend.in_process:
                self._waiting.clear()  # its environments were interrupted in mid-step: nothing to wait for
            raise
        if outcome is None:
            return self.finish()
        self._outcomes = {0: outcome}  # for who is interrupted now, and asks again
        self._waiting.clear()
        return outcome

    def finish(self, timeout: float | None = None, on_reply: OnReply | None = None) -> Outcome:
        """Wait for all replies to what was begun, and call ``on_reply`` with the environments of each.

        ``timeout`` limits this wait: afterwards :class:`WaitTimeout` is raised and ``finish`` may be called again.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while self._waiting:
            try:
                events = self._poll(None if end is None else max(0.0, end - time.monotonic()))
            except BaseException:
                if self.backend.name == "serial":
                    self._waiting.clear()  # its environments were interrupted in mid-step: nothing to wait for
                raise
            for event in events:
                if isinstance(event, Reply):
                    if event.sequence == self._sequence:
                        self._waiting.discard(event.worker)
                        self._outcomes[event.worker] = event.outcome
                        if on_reply is not None:
                            on_reply(self.rows[event.worker])
                elif isinstance(event, Death):
                    self._fail(self._died(event))
            if timeout is not None and end is not None and self._waiting and not events and time.monotonic() >= end:
                raise WaitTimeout(self._still_waiting(timeout))
        return self._merged()

    def _merged(self) -> Outcome:
        if len(self._outcomes) == 1:
            (merged,) = self._outcomes.values()
            return merged
        merged = Outcome.empty()
        for _, outcome in sorted(self._outcomes.items()):
            if any(outcome):
                merged.infos.extend(outcome.infos)
                merged.loose.extend(outcome.loose)
                merged.failures.extend(outcome.failures)
                merged.values.extend(outcome.values)
        return merged

    def shares(self, rows: list[int]) -> dict[int, Rows]:
        """These environments by who runs them, in the given order; all of them as the ranges that they are."""
        if rows == self._everybody:
            return dict(enumerate(self.rows))
        by_worker: dict[int, Rows] = {}
        for row in rows:
            by_worker.setdefault(self.worker_of[row], []).append(row)  # type: ignore[union-attr]
        return by_worker

    @property
    def is_idle(self) -> bool:
        """Whether nothing has been begun that could be finished."""
        return self._op is None

    @property
    def pids(self) -> tuple[int, ...]:
        """The worker processes; none where environments run in this process."""
        pid_of = getattr(self.unwatched, "pid", None)
        return () if pid_of is None else tuple(map(pid_of, self._workers))

    def busy(self, workers: Sequence[int] | None = None) -> str:
        """Which environments these workers, or all of them, are working on right now, for messages."""
        rows = [self.backend.progress(worker) for worker in (self._workers if workers is None else workers)]
        known = [str(row) for row in rows if row is not None]
        return f"environment {', '.join(known)}" if known else "not known"

    def where(self, env_index: int) -> str:
        """Who runs this environment, for messages; empty in the caller's own process."""
        if self.backend.in_process:
            return ""
        return f" (worker {self.worker_of[env_index]})"

    def _fail(self, error: WorkerError) -> NoReturn:
        self._failed = error
        self._waiting.clear()
        raise error

    def _doing(self) -> str:
        gerunds = {
            Op.CONSTRUCT: "making", Op.ATTACH: "preparing", Op.RESET: "resetting", Op.STEP: "stepping",
            Op.CALL: "calling a method of", Op.SET_ATTR: "setting an attribute of", Op.CLOSE: "closing",
            Op.STEP_EACH: "stepping", Op.RESET_EACH: "resetting",
        }  # fmt: skip
        return gerunds[self._op] if self._op is not None else "waiting with"

    def _died(self, death: Death) -> WorkerError:
        rows, row = self.rows[death.worker], self.backend.progress(death.worker)
        which = f"environment {row}" if row is not None else f"its environments ({rows.start} to {rows.stop - 1})"
        words = last_words_of(self.unwatched, death.worker)
        report = describe_death(death, f"{self._doing()} {which}", rows, self.num_envs, words=words)
        return ProtocolError(report) if death.babble else WorkerDied(report)

    def _still_waiting(self, timeout: float) -> str:
        busy = self.busy(sorted(self._waiting))
        name = self._op.label if self._op is not None else "call"
        return (
            f"`{name}_wait` has waited {timeout:g} s (busy now: {busy}). "
            f"Nothing is lost: call `{name}_wait` again for the same results, or close()."
        )

    def close(self, grace: float, *, quietly: bool = False) -> None:
        """End everything, within about ``grace`` seconds. Harmless in a forked child, and when repeated."""
        if self._closed or HERE.pid != self._owner:
            return
        with postponed:
            self._closed = True
            end = time.monotonic() + grace
            self.access.shut(max(grace, LONGEST_EVICTION_SECONDS))
            if hasattr(self, "backend"):
                for late in self._close_backend(max(0.0, end - time.monotonic())):
                    logger.log(logging.DEBUG if quietly else logging.WARNING, late)
            self.__dict__.pop("arena", None)

    def _close_backend(self, grace: float) -> list[str]:
        if self.backend.name == "serial" and self.access.is_used_by_others:
            return [f"environment {self.backend.progress(0)} is at work in another thread, and is left to it unclosed"]
        return self.backend.close(grace)
