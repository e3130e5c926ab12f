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
from shoal.vector.cpus import usable_cpus
from shoal.vector.engine import Engine
from shoal.vector.face import check_factories
from shoal.vector.first_ready import Batch
from shoal.vector.flights import Flights
from shoal.vector.infos import num_informed
from shoal.vector.interrupts import forbidden, postponed
from shoal.vector.messages import EnvFn
from shoal.vector.plan import could_run_at_once
from shoal.vector.runner import Runner
from shoal.vector.second_look import LONGEST_SECONDS, SecondLook, can_be_looked_at
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
    _look: SecondLook | None = None
    """At what steps take in workers, where it was a close decision."""
    _verdict: Verdict
    """What the first steps have led to."""

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
        if trial is None or self.closed or self._pending is not None:
            return
        if trial.is_over:
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
        look, self._look = self._look, None
        verdict = trial.verdict(sum(array.nbytes for array in self._pool.arena.results))
        if verdict is None:
            self._go_to_workers(replace(self._asked, backend="shm"), "Nothing was timed before workers were needed.")
        elif look is not None:
            self._decide_for_good(look, verdict)
        elif verdict.choice.backend == "serial":
            self._stay(verdict.reason)
        else:
            self._go_to_workers(self._engine_of(verdict), verdict.reason)
            if verdict.is_close and can_be_looked_at(self.num_envs) and self.plan.backend != "serial":
                self._verdict, self._look = verdict, SecondLook(self.num_envs)

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

    def _go_to_workers(self, engine: Engine, reason: str) -> None:
        try:
            self._move(engine, reason)
        except Exception as error:
            self._stay(f"{reason} But they cannot run elsewhere: {error}")
            warn_caller(f"all environments run in this process, one after the other: {error}")

    # -- looking again -------------------------------------------------------------------------------------------

    def _step_looked_at(self, actions: Any, look: SecondLook) -> Any:
        """A step in workers that is timed, or the first one after coming back from them."""
        if look.is_over and self._profiler is None:
            if look.is_quicker_than(self._verdict.here.seconds, self._verdict.slowness) or not self._may_come_back():
                self._look = None
            else:
                self._come_back(look)
            return self.step(actions)
        begin = time.perf_counter()
        results = self._step(actions)
        if not look.is_over:
            look.note(time.perf_counter() - begin)
        return results

    def _may_come_back(self) -> bool:
        supervisor = self._pool.backend
        is_at_rest = self._pending is None and not self.closed and not self._has_sent  # and sends nobody off
        # Who has ended a worker would end this process, and a captured state may bring classes along that are here already.
        return (
            is_at_rest
            and isinstance(supervisor, Supervisor)
            and not supervisor.stats.restarts
            and supervisor.journal is not None
            and supervisor.journal.seconds_to_repeat() <= LONGEST_SECONDS
        )

    def _come_back(self, look: SecondLook) -> None:
        """Workers do not seem to be worth it."""
        self._pool.check_usable()
        with postponed, forbidden:  # halfway back would be nowhere
            try:
                self._move(replace(self._asked, backend="serial", on_fault="restore"), UNDECIDED)
            except Exception as error:
                self._look = None
                reason = f"{self._verdict.reason} It took {duration(look.seconds)}, but they cannot come back: {error}"
                self.plan = replace(self.plan, reason=reason)
            else:
                self._begin_trial()

    def _decide_for_good(self, look: SecondLook, verdict: Verdict) -> None:
        """Environments have been timed at home, in workers, and at home again."""
        workers = self._verdict.choice.num_workers
        found = f"{verdict.first} In {workers} worker processes a step of all took {duration(look.seconds)}"
        if look.is_quicker_than(verdict.here.seconds, verdict.slowness):
            self._go_to_workers(self._engine_of(self._verdict), f"{found}.")
        else:
            self._stay(f"{found}, which is not worth it.")

    @property
    def _is_undecided(self) -> bool:
        return self._trial is not None

    def _journaled(self, name: str) -> Supervisor | None:
        if self._trial is not None or self._look is not None:
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

    def step(self, actions: Any) -> Any:
        """Step all environments."""
        raise NotImplementedError

    def _step(self, actions: Any) -> Any:
        """The same, when it is no matter any more where."""
        raise NotImplementedError


def _is_open(env_fns: Sequence[EnvFn], engine: Engine) -> bool:
    """Whether nothing was asked for that decides the matter."""
    undecided = Engine(pin_workers=engine.pin_workers)
    return replace(engine, in_process=tuple(engine.in_process)) == undecided and could_run_at_once(len(env_fns))
