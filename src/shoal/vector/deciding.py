"""What a face does while ``backend="auto"`` has not been decided, and how it stays or moves when it is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shoal.vector.backends import why_no_worker
from shoal.vector.batched import rows_maker
from shoal.vector.branching import Branching
from shoal.vector.caller import warn_caller
from shoal.vector.comparison import LONGEST_SECONDS, NUM_WINDOWS, Comparison
from shoal.vector.cpus import usable_cpus
from shoal.vector.engine import Engine
from shoal.vector.face import check_factories
from shoal.vector.first_ready import Batch
from shoal.vector.flights import Flights
from shoal.vector.infos import Columns, EnvInfos, num_informed
from shoal.vector.interrupts import forbidden, postponed
from shoal.vector.messages import EnvFn
from shoal.vector.pickling import why_unsendable
from shoal.vector.plan import could_run_at_once
from shoal.vector.runner import Runner
from shoal.vector.step_clock import StepClock
from shoal.vector.supervisor import Supervisor
from shoal.vector.trial import SLOW_TO_MAKE, FirstMade, Trial, Verdict
from shoal.vector.wording import duration

UNDECIDED = "the first steps are timed in this process, then it is decided"


class Deciding(Branching):
    """A face that may begin in the caller's process and go on in others."""

    _is_seen: Any
    _trial: Trial | None = None
    _asked: Engine
    """How the environments are to be run once that is decided."""
    _comparison: Comparison | None = None
    """Of what steps take in workers with what they would take here."""
    _verdict: Verdict
    """What the first steps have led to."""
    _reason: str
    """Why environments are in workers, without what was measured there."""
    _unsendable = ""
    """What environments have told here that workers could not send, if there was anything."""

    def _start_or_try(self, env_fns: Sequence[EnvFn], engine: Engine) -> None:
        self._asked = engine
        check_factories(env_fns)
        if not _is_open(env_fns, engine):
            self._start(env_fns, engine)
            return
        if rows_maker(env_fns) is not None:
            self._start(env_fns, replace(engine, backend="serial"))
            self.plan = replace(self.plan, reason="A batched world steps all its environments in one call.")
            return
        if reason := why_no_worker(min(len(env_fns), usable_cpus())):
            warn_caller(f"all environments run in this process, one after the other: {reason}")
            self._start(env_fns, replace(engine, backend="serial"))
            self.plan = replace(self.plan, reason=f"no worker process could be started ({reason})")
            return
        made = [FirstMade(env_fns[0])]
        if made[0].seconds > SLOW_TO_MAKE:
            made.append(FirstMade(env_fns[1]))  # the first one may have imported much
        if (seconds := made[-1].seconds) > SLOW_TO_MAKE:
            for each in made:
                each.close()
            self._start(env_fns, replace(engine, backend="shm"))
            self.plan = replace(
                self.plan,
                reason=f"Making one environment takes {seconds:.2g} s, so they are made by workers, in parallel. "
                f"{self.plan.reason}.",
            )
            return
        self._try([*made, *env_fns[len(made) :]], replace(engine, backend="serial", on_fault="restore"))
        self.env_fns = list(env_fns)

    def _try(self, env_fns: Sequence[EnvFn], engine: Engine) -> None:
        begin = time.perf_counter()
        self._start(env_fns, engine)
        self._begin_trial().note_beginning(time.perf_counter() - begin)

    def _begin_trial(self) -> Trial:
        self.plan = replace(self.plan, reason=UNDECIDED)
        (runner,) = self._runners()
        runner.slice.clock = StepClock()
        self._trial = Trial(self.num_envs, usable_cpus(), runner.slice.clock, overlaps=runner.slice.overlaps)
        return self._trial

    def _runners(self) -> list[Runner]:
        runners: list[Runner] = self._pool.unwatched.runners
        return runners

    def _decide_before_flight(self) -> None:
        """Who wants something to happen meanwhile has little use for a loop in this process; but first it must be timed."""
        trial = self._trial
        if self.closed or self._pending is not None:
            return
        if trial is None:
            self._come_back_where_slower()
        elif trial.is_over:
            self._flights.land()  # here nothing happens unless it is waited for, so nobody is in the middle of anything
            self._decide()

    def _note_received(self, batch: Batch, *, has_begun: bool) -> None:
        if self._trial is not None and has_begun:
            self._trial.forget_some()
        elif self._trial is not None:
            self._trial.note_some(len(batch.env_ids), num_informed(batch.info))

    def _decide(self) -> None:
        """Stay or move, by what has been seen so far."""
        trial, self._trial = self._trial, None
        if trial is None:
            return
        comparison, self._comparison = self._comparison, None
        verdict = trial.verdict(sum(array.nbytes for array in self._pool.arena.results))
        if verdict is None:
            self._go_to_workers(replace(self._asked, backend="shm"), "Nothing was timed before workers were needed.")
        elif comparison is not None:
            self._decide_again(comparison, verdict)
        elif verdict.choice.backend == "serial":
            self._stay(verdict.reason)
        else:
            self._verdict = verdict
            self._go_to_workers(self._engine_of(verdict), verdict.reason)
            self._compare(verdict, NUM_WINDOWS)

    def _engine_of(self, verdict: Verdict) -> Engine:
        choice = verdict.choice
        threads = choice.threads_per_worker if choice.threads_per_worker > 1 else None
        return replace(
            self._asked,
            backend=choice.backend,
            num_workers=choice.num_workers,
            threads_per_worker=threads,
            step_costs=choice.step_costs,
        )

    def _note_infos(self, infos: EnvInfos) -> None:
        """Environments have told this. What may be told here, where nothing is sent, must not be a mistake elsewhere."""
        if self._trial is None or self._unsendable:
            return
        for entry in infos:
            if not isinstance(entry, Columns) and (why := why_unsendable(entry[1])):
                self._unsendable = f"infos cannot be sent by worker processes ({why})"
                return

    def _go_to_workers(self, engine: Engine, reason: str) -> None:
        if self._unsendable:
            self._stay(f"{reason} But {self._unsendable}, so all stay in this process.")
            return
        try:
            self._move(engine, reason)
        except Exception as error:
            self._stay(f"{reason} But they cannot run elsewhere: {error}")
            warn_caller(f"all environments run in this process, one after the other: {error}")

    # -- comparing -----------------------------------------------------------------------------------------------

    def _compare(self, verdict: Verdict, num_windows: int) -> None:
        """From now on, hold what steps take in workers against what they take at home."""
        if self.plan.backend != "serial":
            self._comparison = Comparison(verdict.here.seconds, verdict.slowness, num_windows)
            self._reason = self.plan.reason

    def _note_wait(self, seconds: float) -> None:
        """The caller has waited for so long for a step of all environments in workers."""
        if self._comparison is not None and self._comparison.note(seconds):
            self._say_what_it_takes(self._comparison)

    def _say_what_it_takes(self, comparison: Comparison, more: str = ".") -> None:
        self.plan = replace(self.plan, reason=f"{self._reason} It takes {duration(comparison.seconds)}{more}")

    def _come_back_where_slower(self) -> None:
        """Come back if workers are slower than a loop here, and nothing speaks against it."""
        comparison = self._comparison
        if comparison is not None and comparison.is_slower and self._trial is None and self._may_come_back():
            self._come_back(comparison)

    def _may_come_back(self) -> bool:
        supervisor = self._pool.backend
        is_at_rest = self._pending is None and not self.closed and not self._has_sent  # and sends nobody off
        # Who has ended a worker would end this process, and a captured state may bring classes along that are here already.
        return (
            is_at_rest
            and self._profiler is None
            and isinstance(supervisor, Supervisor)
            and not supervisor.stats.restarts
            and supervisor.journal is not None
            and supervisor.journal.seconds_to_repeat() <= LONGEST_SECONDS
        )

    def _come_back(self, comparison: Comparison) -> None:
        """Workers are not worth it."""
        self._pool.check_usable()
        with postponed, forbidden:  # halfway back would be nowhere
            try:
                self._move(replace(self._asked, backend="serial", on_fault="restore"), UNDECIDED)
            except Exception as error:
                self._comparison = None
                self._say_what_it_takes(comparison, f", but they cannot come back: {error}")
            else:
                self._begin_trial()

    def _decide_again(self, comparison: Comparison, verdict: Verdict) -> None:
        """Environments have been timed at home, in workers, and at home again."""
        foreseen = self._verdict.choice
        found = (
            f"{verdict.first} In {foreseen.num_workers} worker processes a step of all took {duration(comparison.seconds)}, "
            f"where {duration(foreseen.seconds)} were foreseen"
        )
        if comparison.seconds < verdict.here.seconds:
            self._go_to_workers(self._engine_of(self._verdict), f"{found}.")
            self._compare(verdict, 4 * comparison.num_windows)
        else:
            self._stay(f"{found}, which is not worth it.")

    @property
    def _is_undecided(self) -> bool:
        return self._trial is not None

    def _journaled(self, name: str) -> Supervisor | None:
        if self._trial is not None or self._comparison is not None:
            # Who saves or branches environments now will want to do so later, too.
            self._asked = replace(self._asked, on_fault="restore")
        return super()._journaled(name)

    def _stay(self, reason: str) -> None:
        """Go on in this process."""
        for runner in self._runners():
            runner.slice.clock = None
        self._relieve()
        self.plan = replace(self.plan, reason=reason)

    def _relieve(self) -> None:
        """No longer write anything down, where nobody dies alone, unless that was asked for."""
        supervisor = self._pool.backend
        if self._asked.on_fault == "restore" or not isinstance(supervisor, Supervisor):
            return
        results, loose = [array.copy() for array in self._pool.arena.results], self._observations.loose_values()
        self._pool.backend = supervisor.relieved()
        self.on_fault = "raise"
        self._furnish()
        self._take_over(results, loose)

    def _move(self, engine: Engine, reason: str) -> None:
        """Make the environments again elsewhere, and let them do again what they have done; or change nothing, and raise."""
        before, old, flights = self.__dict__.copy(), self._pool, self._flights
        self._flights = Flights(old)  # who has arrived and was not received will be received from where all go on
        results, loose = [array.copy() for array in old.arena.results], self._observations.loose_values()
        try:
            supervisor = super()._journaled("move")
            assert supervisor is not None  # a trial is journaled
            pasts = supervisor.pasts()
            self._start(self.env_fns, replace(engine, on_fault="restore"))
            self._furnish()
            self.closed = False
            self._follow(super()._journaled("move"), pasts)
        except BaseException:
            if self._pool is not old:
                self._pool.close(1.0, quietly=True)
                self._finalizer.detach()
            self.__dict__ = before
            raise
        self._take_over(results, loose)
        self._flights.take_over(flights)
        self.plan = replace(self.plan, reason=reason)
        before["_finalizer"].detach()
        old.close(1.0, quietly=True)

    def _take_over(self, results: Sequence[Any], loose: Any) -> None:
        for target, source in zip(self._pool.arena.results, results, strict=True):
            target[:] = source
        self._observations.update(loose)

    # -- what a face adds ----------------------------------------------------------------------------------------

    def _furnish(self) -> None:
        """Lay out the arena of a new pool, and what reads and writes it."""
        raise NotImplementedError


def _is_open(env_fns: Sequence[EnvFn], engine: Engine) -> bool:
    """Whether nothing was asked for that decides the matter."""
    undecided = Engine(pin_workers=engine.pin_workers)
    return replace(engine, in_process=tuple(engine.in_process)) == undecided and could_run_at_once(len(env_fns))
