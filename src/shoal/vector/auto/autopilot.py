"""``backend="auto"``: where environments run, decided by what steps take, and again when the machine changes.

::

    trying: the first steps are timed in the caller's process
       ├── workers would never pay ────────▶ they stay, and nothing more is measured or written down
       ├── workers would pay now ── move ──▶ in workers, compared ◀── move ───┐ the machine is free again,
       │                                          │ slower than here: move    │ or steps have become dearer
       └── they would on a quiet machine ──▶ here, watched, written down ─────┘

A face asks between two steps whether there is something to do. A move is done a little at a time (``moving.py``), and changes
no result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from shoal.vector.arguments import check_factories
from shoal.vector.auto.comparison import NUM_WINDOWS, Comparison
from shoal.vector.auto.moving import CannotKeepUp, HalfDone, Move, NoBeginning
from shoal.vector.auto.starting import CLOSE_SECONDS, InBackground, InPortions
from shoal.vector.auto.trial import SLOW_TO_MAKE, FirstMade, Trial, Verdict
from shoal.vector.auto.watch import Pace, Watch
from shoal.vector.backends import why_no_worker
from shoal.vector.batched import rows_maker
from shoal.vector.caller import warn_caller
from shoal.vector.cpus import others_running, usable_cpus
from shoal.vector.engine import Engine
from shoal.vector.errors import CannotStart
from shoal.vector.infos import num_informed
from shoal.vector.messages import EnvFn
from shoal.vector.pickling import why_unsendable
from shoal.vector.plan import UNDECIDED, could_run_at_once
from shoal.vector.session import Form, Session
from shoal.vector.step_clock import StepClock
from shoal.vector.wording import duration

MUCH_HISTORY = 2**26
"""Bytes that are kept of environments in this process, so that they could move."""
HURRY_SECONDS = 5.0
"""For which somebody who branches environments on their way waits for them."""
LONGEST_SECONDS = 20.0
"""What it may take to do everything again."""


def opened(env_fns: Sequence[EnvFn], engine: Engine) -> tuple[Session, Autopilot | None]:
    """A session that has started; and who decides where it goes on, if that is open."""
    check_factories(env_fns)
    if not _is_open(env_fns, engine):
        return _started(env_fns, engine), None
    if rows_maker(env_fns) is not None:
        return _started(env_fns, engine, "serial", "A batched world steps all its environments in one call."), None
    if reason := why_no_worker(min(len(env_fns), usable_cpus())):
        warn_caller(f"all environments run in this process, one after the other: {reason}")
        return _started(env_fns, engine, "serial", f"no worker process could be started ({reason})"), None
    made = [FirstMade(env_fns[0])]
    if made[0].seconds > SLOW_TO_MAKE:
        made.append(FirstMade(env_fns[1]))  # the first one may have imported much
    if (seconds := made[-1].seconds) > SLOW_TO_MAKE:
        for each in made:
            each.close()
        session = _started(env_fns, engine, "shm")
        why = f"Making one environment takes {seconds:.2g} s, so they are made by workers, in parallel."
        session.plan = replace(session.plan, reason=f"{why} {session.plan.reason}.")
        return session, None
    begin = time.perf_counter()
    session = _started([*made, *env_fns[len(made) :]], _at_home(engine), "serial", UNDECIDED)
    return session, Autopilot(env_fns, engine, session, time.perf_counter() - begin)


def _started(env_fns: Sequence[EnvFn], engine: Engine, backend: str | None = None, reason: str = "") -> Session:
    session = Session(env_fns, engine if backend is None else replace(engine, backend=backend))
    try:
        session.start()
    except CannotStart as error:
        if engine.backend != "auto":
            raise
        warn_caller(f"all environments run in this process, one after the other: {error}")
        session = Session(env_fns, replace(engine, backend="serial", num_workers=None))
        session.start()
        reason = f"no worker process could be started ({error})"
    if reason:
        session.plan = replace(session.plan, reason=reason)
    return session


def _is_open(env_fns: Sequence[EnvFn], engine: Engine) -> bool:
    """Whether nothing was asked for that decides the matter."""
    undecided = Engine(pin_workers=engine.pin_workers)
    return replace(engine, in_process=tuple(engine.in_process)) == undecided and could_run_at_once(len(env_fns))


def _at_home(engine: Engine) -> Engine:
    """In the caller's process, written down so that they can move."""
    return replace(engine, backend="serial", on_fault="restore")


class Autopilot:
    """Decides where the environments of a face run."""

    def __init__(self, env_fns: Sequence[EnvFn], engine: Engine, session: Session, seconds_to_make: float) -> None:
        self._env_fns, self._engine, self._cpus = env_fns, engine, usable_cpus()
        self.trial: Trial | None = None
        """Of the first steps, while these are taken."""
        self.comparison: Comparison | None = None
        """Of what steps take in workers with what they would take here."""
        self.watch: Watch | None = None
        """Of what others are doing, while environments are here and could leave."""
        self.move: Move | None = None
        self.is_over = False
        """Whether they stay where they are."""
        self._verdict: Verdict | None = None
        """What the last decision to leave was ..."""
        self._reason = ""
        """... and why."""
        self._keeps_journal = False
        self._pace = Pace()
        self._patience = NUM_WINDOWS
        self._company = 0
        """How many others were computing when environments were last called back."""
        self._trusts_resets = True
        """Whether environments may begin anew with resets when they move, which is found out then."""
        self._unsendable = ""
        """What environments have told here that workers could not send, if there was anything."""
        self._names_told: set[frozenset[Any]] = set()
        """Of infos, as they came together."""
        self._warning = ""
        """What the caller has yet to be told."""
        self._left: Session | None = None
        """The session that environments have moved out of, until it is ended."""
        self._endings: list[threading.Thread] = []
        """What ends workers that were left."""
        self._begin_trial(session)
        assert self.trial is not None
        self.trial.note_beginning(seconds_to_make)

    def _begin_trial(self, session: Session) -> None:
        (runner,) = session.pool.unwatched.runners
        runner.slice.clock = StepClock()
        self.trial = Trial(session.num_envs, self._cpus, runner.slice.clock, overlaps=runner.slice.overlaps)
        session.plan = replace(session.plan, reason=UNDECIDED)

    # -- what the face tells ------------------------------------------------------------------------------------------

    def beginning(self) -> AbstractContextManager[None]:
        """The caller resets environments, which is not to be counted as steps."""
        return nullcontext() if self.trial is None else self.trial.beginning()

    def note_step(self, session: Session, seconds: float, infos: Any) -> None:
        """The caller has waited for so long for a step of all environments, which has brought these infos."""
        if self.trial is not None:
            self.note_infos(infos)
            self.trial.note_step(_informed(infos))
        elif self.comparison is not None:
            if self.comparison.note(seconds):
                self._say_what_it_takes(session)
        else:
            self.note_infos(infos)
            if self.watch is not None:
                self.watch.note(seconds)

    def note_some(self, num_envs: int, infos: Any, *, has_begun: bool = False) -> None:
        """Some environments have taken a step each, or some of them have begun an episode."""
        self.note_infos(infos)
        if self.trial is not None and has_begun:
            self.trial.forget_some()
        elif self.trial is not None:
            self.trial.note_some(num_envs, _informed(infos))

    def note_infos(self, infos: Any) -> None:
        """Environments have told this. What may be told here, where nothing is sent, must not be a mistake elsewhere."""
        if self._unsendable or not infos or self.comparison is not None:
            return
        names = frozenset(infos) if isinstance(infos, dict) else frozenset[Any]().union(*infos)
        # During the trial all of them are looked at, later only what is new.
        if (self.trial is not None or names not in self._names_told) and (why := why_unsendable(infos)):
            self._unsendable = f"infos cannot be sent by worker processes ({why})"
        self._names_told.add(names)

    def keep_journal(self) -> None:
        """Who saves or branches environments now will want to do so later, too."""
        self._keeps_journal = True

    @property
    def is_undecided(self) -> bool:
        """Whether it is still open where environments will run."""
        return self.trial is not None or self.move is not None

    def finish_move(self, session: Session, form: Form) -> Session | None:
        """Let a move come to its end now, because the caller brings environments elsewhere; as :meth:`between_steps`."""
        end = time.perf_counter() + HURRY_SECONDS
        while self.move is not None:
            there = self._go_on_moving(session, form)
            if there is not None:
                return there
            if self.move is not None and time.perf_counter() > end:
                self._pace.note_failure(time.perf_counter())
                self._break_off(session)
            time.sleep(0.001)  # others have to start
        return None

    # -- deciding ----------------------------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether there is something to do between two steps."""
        if self.move is not None:
            return True
        if self.trial is not None:
            return self.trial.is_over
        if self.comparison is not None:
            return self.comparison.is_slower
        return self.watch is not None and self.watch.is_due

    def between_steps(self, session: Session, form: Form) -> Session | None:
        """Do what is to be done; returns the session to go on with if its memory is another now."""
        if self.move is not None:
            return self._go_on_moving(session, form)
        if self.trial is not None:
            return self._decide(session, form)
        if self.comparison is not None:
            self._consider_returning(session, form)
        elif self.watch is not None:
            return self._look_around(session, self.watch, form)
        return None

    def _decide(self, session: Session, form: Form) -> Session | None:
        """Stay or move, by what has been seen so far."""
        trial, self.trial = self.trial, None
        assert trial is not None
        for runner in session.pool.unwatched.runners:
            runner.slice.clock = None
        verdict = trial.verdict(sum(array.nbytes for array in session.arena.results))
        if verdict is None:
            return self._set_off(session, form, None, "Nothing was timed before workers were needed.")
        if verdict.choice.backend != "serial":
            return self._set_off(session, form, verdict, verdict.reason)
        if verdict.beside(0).choice.backend == "serial":
            return self._stay(session, form, verdict.reason)
        self._watch_from_here(session, Watch(verdict), verdict.reason)
        return None

    def _stay(self, session: Session, form: Form, reason: str) -> Session | None:
        """Go on here for good, and no longer write anything down, unless that was asked for."""
        self.is_over, self.watch = True, None
        session.plan = replace(session.plan, reason=reason)
        if self._keeps_journal or session.supervisor is None:
            _be_lenient(session)
            return None
        session.relieve(form)
        return session

    def _watch_from_here(self, session: Session, watch: Watch, reason: str) -> None:
        """Stay here for the time being, ready to leave."""
        self.watch, self.comparison = watch, None
        session.plan = replace(session.plan, reason=reason)
        _be_lenient(session)

    def _look_around(self, session: Session, watch: Watch, form: Form) -> Session | None:
        """Leave if workers have become worth it; no longer think of it where that would have to do too much again."""
        verdict = watch.look()
        if self._has_too_much(session):
            return self._stay(session, form, session.plan.reason)
        if verdict is not None and self._pace.may_move(time.perf_counter()):
            if watch.has_come_for_nothing:
                self._patience *= 4
            return self._set_off(session, form, verdict, verdict.reason)
        return None

    def _has_too_much(self, session: Session) -> bool:
        """Whether environments have done more than they could be made to do again elsewhere."""
        supervisor = session.supervisor
        if supervisor is None or supervisor.journal is None or supervisor.upkeep.has_forgotten:
            return True
        return supervisor.journal.nbytes > MUCH_HISTORY or supervisor.journal.replay_seconds(0) > LONGEST_SECONDS

    # -- to workers --------------------------------------------------------------------------------------------------

    def _set_off(self, session: Session, form: Form, verdict: Verdict | None, reason: str) -> Session | None:
        """Begin to move to workers, or stay if that is not possible."""
        self._verdict, self._reason = verdict, reason
        shown = [value for *_, value in session.observations.loose_values()]
        if not self._unsendable and (why := why_unsendable(shown)):
            self._unsendable = f"observations cannot be sent by worker processes ({why})"
        if self._unsendable:
            return self._stay_with_secrets(session, form)
        try:
            engine = replace(self._engine, backend="shm", on_fault="restore")
            if verdict is not None:
                choice = verdict.choice
                engine = replace(
                    engine,
                    num_workers=choice.num_workers,
                    threads_per_worker=choice.threads_per_worker if choice.threads_per_worker > 1 else None,
                    step_costs=choice.step_costs,
                )
            there = Session(self._env_fns, engine, entropy=session.pool.entropy)
            there.plan = replace(there.plan, reason=reason)
            starting = InBackground(there, form)
            self.move = Move(session, starting, form.group_size, trusts_resets=self._trusts_resets)
        except Exception as error:
            return self._cannot_leave(session, form, error)
        return None

    def _stay_with_secrets(self, session: Session, form: Form) -> Session | None:
        return self._stay(session, form, f"{self._reason} But {self._unsendable}, so all stay in this process.")

    def _cannot_leave(self, session: Session, form: Form, error: BaseException) -> Session | None:
        self._warning = f"all environments run in this process, one after the other: {error}"
        return self._stay(session, form, f"{self._reason} But they cannot run elsewhere: {error}")

    # -- on the way --------------------------------------------------------------------------------------------------

    def _go_on_moving(self, session: Session, form: Form) -> Session | None:
        """Do a little of it."""
        move = self.move
        assert move is not None
        if self.comparison is not None:
            return self._go_on_returning(session, move)
        if self._unsendable:
            self._break_off(session)
            return self._stay_with_secrets(session, form)
        if self._has_too_much(session):
            self._break_off(session)
            return self._stay(
                session, form, f"{self._reason} But they have done too much to do all of it again elsewhere."
            )
        try:
            there = move.go_on()
        except (CannotKeepUp, NoBeginning) as error:
            self._break_off(session)
            if isinstance(error, NoBeginning):
                self._trusts_resets = False
                return self._set_off(session, form, self._verdict, self._reason)
            self._pace.note_failure(time.perf_counter())  # later, perhaps
            reason = f"{self._reason} But they could not keep up with a loop here."
            if self.watch is None:
                return self._stay(session, form, reason)
            session.plan = replace(session.plan, reason=reason)
            return None
        except HalfDone:
            self._break_off(session)
            return self._stay(session, form, f"{self._reason} But a step was interrupted, so all stay in this process.")
        except Exception as error:
            self._break_off(session)
            return self._cannot_leave(session, form, error)
        except BaseException:
            self._break_off(session)
            raise
        if there is None:
            return None
        self._arrive(session)
        self._arrive_in_workers(there)
        return there

    def _go_on_returning(self, session: Session, move: Move) -> Session | None:
        """The same for environments that come back. If they cannot, they go on in workers."""
        if not self._may_return(session):
            self._break_off(session)
            return None
        try:
            here = move.go_on()
        except CannotKeepUp:
            self._pace.note_failure(time.perf_counter())
            self._break_off(session)
            return None
        except Exception as error:
            self._break_off(session)
            self._say_what_it_takes(session, f", but they cannot come back: {error}")
            self.is_over = True
            return None
        except BaseException:
            self._break_off(session)
            raise
        if here is not None:
            self._arrive(session)
            self._arrive_here(here)
        return here

    def _arrive(self, session: Session) -> None:
        """Environments have moved out of this session."""
        self.move, self._left = None, session
        self._pace.note_move(time.perf_counter())

    def _break_off(self, session: Session) -> None:
        """Stay where they are, and perhaps set off again later."""
        move, self.move = self.move, None
        assert move is not None
        move.abandon()
        if self.comparison is not None:
            move.end(CLOSE_SECONDS)  # what was made here is closed here
            return
        self._later(partial(move.end, CLOSE_SECONDS))
        session.plan = replace(session.plan, reason=self._reason)
        if self._verdict is None:
            self._begin_trial(session)
        else:
            self.watch = Watch(self._verdict)

    def settle(self) -> None:
        """The face goes on with what :meth:`between_steps` gave: end what was left, and say what is to be said."""
        session, self._left = self._left, None
        if session is not None and session.plan.backend == "serial":
            session.close(CLOSE_SECONDS, quietly=True)
        elif session is not None:  # worker processes take their time to end
            self._later(partial(session.close, CLOSE_SECONDS, quietly=True))
        warning, self._warning = self._warning, ""
        if warning:
            warn_caller(warning)

    def _later(self, end: Callable[[], None]) -> None:
        """End workers while stepping goes on."""
        self._endings = [thread for thread in self._endings if thread.is_alive()]
        self._endings.append(threading.Thread(target=end, name="shoal-ending", daemon=True))
        self._endings[-1].start()

    def close(self, seconds: float) -> None:
        """Nothing of all this is wanted any more. It may take so long."""
        move, self.move = self.move, None
        if move is not None:
            move.end(min(seconds, CLOSE_SECONDS))
        for thread in self._endings:
            thread.join(min(seconds, 2 * CLOSE_SECONDS))

    # -- in workers --------------------------------------------------------------------------------------------------

    def _arrive_in_workers(self, there: Session) -> None:
        """From now on, hold what steps take there against what they take here."""
        self.watch = None
        verdict = self._verdict
        if verdict is None:
            self.is_over = True
            return
        self.comparison = Comparison(verdict.here.seconds, verdict.slowness, self._patience, there.pool.pids)

    def _say_what_it_takes(self, session: Session, more: str = ".") -> None:
        assert self.comparison is not None
        took = f" It takes {duration(self.comparison.seconds)}{more}" if self.comparison.seconds else ""
        session.plan = replace(session.plan, reason=f"{self._reason}{took}")

    def _consider_returning(self, session: Session, form: Form) -> None:
        """Come back if workers are slower than a loop here, and nothing speaks against it."""
        assert self.comparison is not None
        if not self._pace.may_move(time.perf_counter()) or not self._may_return(session):
            return
        self._company = max(1, others_running())
        starting = InPortions(self._env_fns, _at_home(self._engine), form, session.pool.entropy)
        self.move = Move(session, starting, form.group_size, trusts_resets=False)

    def _may_return(self, session: Session) -> bool:
        supervisor = session.supervisor
        # Who has ended a worker would end this process, and a captured state may bring classes along that are here already.
        return (
            not session.has_sent  # who sends environments off wants something to happen meanwhile
            and supervisor is not None
            and not supervisor.stats.restarts
            and supervisor.journal is not None
            and not supervisor.upkeep.has_forgotten
            and not supervisor.journal.bases
            and sum(map(supervisor.journal.replay_seconds, range(len(supervisor.rows)))) <= LONGEST_SECONDS
        )

    def _arrive_here(self, here: Session) -> None:
        """Steps in workers have been slower than a loop here was."""
        comparison, verdict = self.comparison, self._verdict
        assert comparison is not None
        assert verdict is not None
        found = (
            f"{verdict.first} In {verdict.choice.num_workers} worker processes a step of all took "
            f"{duration(comparison.seconds)}, where {duration(verdict.choice.seconds)} were foreseen, which is not worth it."
        )
        self._watch_from_here(here, Watch(verdict, comparison.seconds, self._company), found)


def _be_lenient(session: Session) -> None:
    """Let history begin at resets that nobody has rehearsed: it is for moving, where every result is compared."""
    if session.supervisor is not None:
        session.supervisor.upkeep.shortener.is_lenient = True


def _informed(infos: Any) -> int:
    """How many environments have told something: in one dictionary with masks, or in one each."""
    return num_informed(infos) if isinstance(infos, dict) else sum(map(bool, infos))
