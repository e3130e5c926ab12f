"""The supervisor: who is alive, who is late; replaces and restores.

It stands between the pool and a backend whose workers can die, and looks like that backend::

    Pool ── post ──▶ Supervisor ── journals ──▶ Backend ──▶ workers
    Pool ◀─ poll ─── Supervisor ◀── replies, arrivals, deaths

A death becomes a replacement, which is brought to where the dead worker was and then asked what it had not answered. The
pool sees only that this took longer::

    well ── dies ──▶ making ── made ──▶ attaching ── attached ──▶ replaying ── replayed, pending asked again ──▶ well
              ▲          │                  │                          │
              └── dies ──┴──────────────────┴──────────────────────────┘

Before there is an arena, a worker that has made its environments again is well. One that cannot be replaced yet, because no
process can be started, is *missing*: every poll tries again. Its environments never go on in the caller's process, because
what has ended a worker would end that too.

Who cannot be brought back, and when it is too much, is judged in ``verdicts.py``; what is seen to from time to time, while
everybody is well, is in ``upkeep.py``.
"""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shoal.vector.backends.base import Addressed, Backend
from shoal.vector.engine import Care
from shoal.vector.errors import CannotStart, ReplayDiverged, WorkerCrashLoop, WorkerDied, WorkerTimeout
from shoal.vector.failures import as_error
from shoal.vector.halves import Half
from shoal.vector.interrupts import forbidden
from shoal.vector.journal import Journal
from shoal.vector.last_seen import LastSeen
from shoal.vector.lateness import Lateness
from shoal.vector.layout import Arena
from shoal.vector.messages import (
    NOTHING,
    Arrival,
    Arrivals,
    Attachment,
    Command,
    Death,
    Event,
    Op,
    Outcome,
    Recipe,
    Replay,
    Reply,
)
from shoal.vector.one_by_one import OneByOne
from shoal.vector.replay_parts import past_for
from shoal.vector.starts import Fault, Past, Start
from shoal.vector.upkeep import Upkeep
from shoal.vector.verdicts import Judge, judge_construction
from shoal.vector.wards import Phase, Stats, Ward
from shoal.vector.watched import Watched

logger = logging.getLogger(__name__)

OWN = 2**62  # sequence numbers from here on are the supervisor's own
PAUSES = (0.0, 0.0, 0.05, 0.05, 0.1, 0.1, 0.2, 0.2)  # seconds before the first, second, ... replacement in a row
MAINTENANCE = 32  # commands between two times at which everything is seen to
MUCH = 2**17  # bytes of journal that count as one more command
ABSENCE_SECONDS = 0.5  # longer than this, a wait did not end in time because nobody was there to end it

GO_ON = (
    "Nothing is lost by waiting: all other environments are intact. Once a process can be started, the next call replaces the "
    "worker and goes on. The results of a step() that has raised this come from step_wait(), or from the same step() again."
)
NOT_MADE = "The environments were not made, and nothing is left of them."


class Supervisor(Watched):
    """A backend whose workers are watched, and replaced when they die."""

    def __init__(self, backend: Backend, recipes: Sequence[Recipe], care: Care) -> None:
        super().__init__(backend)
        self._recipes = list(recipes)
        self._rows = self.rows = [recipe.rows for recipe in recipes]
        self._worker_of = [worker for worker, rows in enumerate(self._rows) for _ in rows]
        self._care = care
        self._wards = [Ward() for _ in recipes]
        self._lateness = Lateness(care.deadlines, self._wards, self._clock)
        self._watches = bool(self._lateness)
        self.journal = Journal(self._rows) if care.is_journaled else None
        if self.journal is not None:
            self.upkeep = Upkeep(self, self.journal, recipes, care, self._wards)
            self._one_by_one = OneByOne(self.journal)
        self._own_sequence = OWN
        self._owed: dict[int, int] = {}
        """Commands that no journal knows of, because they come before all others, and their workers have not answered."""
        self._missing: set[int] = set()
        """Workers that have died and could not be replaced yet."""
        self._following: set[int] = set()
        """Commands by which workers do what those of another session have done."""
        self._num_unwell = 0
        self._is_simple = False
        """Whether an answer is only an answer: nobody has died, nobody is limited, nobody is late."""
        self._kept: list[Event] = []
        """What happened while something else was waited for."""
        self._is_limited = self.journal is not None and self.upkeep.is_limited
        self._commands_until_maintenance = MAINTENANCE if not self._is_limited else 1
        self._busy_since: float | None = None
        self._attachment: Attachment
        self._arena: Arena | None = None
        self.stats = Stats()

    # -- what a backend can do ---------------------------------------------------------------------------------------

    def attach(self, attachment: Attachment, sequence: int) -> Arena:
        """Lay out the arena, and remember how, for replacements."""
        self._settle()
        if self.journal is not None:
            takes_digests = self.journal.wants_digests(attachment)
            attachment = replace(attachment, is_journaled=True, takes_digests=takes_digests)
        self._attachment = attachment
        self._owed, self._is_simple = dict.fromkeys(range(self.num_workers), sequence), False
        if self._watches:
            self._lateness.note_departure(
                [(worker, Command(sequence, Op.ATTACH)) for worker in range(self.num_workers)]
            )
        arena = self._backend.attach(attachment, sequence)
        if self.journal is not None:
            self.journal.attach(attachment, arena)
            self.upkeep.attach(attachment, arena)
            self._last_seen = LastSeen(self.journal, attachment)
            self._judge = Judge(self.journal, arena, self._last_seen, self._care, self.stats)
        self._arena = arena
        return arena

    def post(self, commands: Sequence[Addressed]) -> None:
        """Hand on the commands, except to workers that are being replaced: these get them later; and write them down."""
        journal = self.journal
        if journal is not None and self._arena is not None:
            self._commands_until_maintenance -= 1
            if self._commands_until_maintenance <= 0:
                self._maintain()
            if self._busy_since is None:
                self._busy_since = self._clock()
        if self._num_unwell:
            self._backend.post([one for one in commands if self._wards[one[0]].phase is Phase.WELL])
        else:
            self._backend.post(commands)
        # Written down while the workers are at it already: neither commands nor actions change before the next ones.
        if journal is not None:
            if self._arena is not None:
                self._commands_until_maintenance -= journal.write(commands) // MUCH
            else:
                self._owed.update((worker, command.sequence) for worker, command in commands)
        if self._watches:
            self._lateness.note_departure(commands)

    def poll(self, timeout: float | None, arrivals: int = 1) -> list[Event]:
        """As of the backend; deaths are dealt with here, and take time in which nothing else may happen."""
        if self._kept:
            kept, self._kept = self._kept, []
            return kept
        if self._missing:
            self._replace_missing()
        if not self._watches:
            return self._take_in(self._backend.poll(timeout, arrivals))
        began = self._clock()
        limit = self._lateness.patience(timeout)
        events = self._take_in(self._backend.poll(limit, arrivals))
        absence = self._clock() - began - (limit if limit is not None else float("inf"))
        if absence > ABSENCE_SECONDS:
            # This process was stopped, or had no processor. Perhaps the workers had none either.
            self._lateness.forgive(absence)
        elif not events:
            self._judge_late()
        return events

    @property
    def steps_at_once(self) -> bool:
        """Whether nothing has to be seen to beside the ordinary step of all environments, and the backend is quick at that."""
        return self._is_simple and self._backend.steps_at_once and not self._kept

    def order_step(self, sequence: int) -> None:
        """As ``post``, for the ordinary step of all environments."""
        if self.journal is not None:
            self._commands_until_maintenance -= 1
            if self._commands_until_maintenance <= 0:
                self._maintain()
                if not self.steps_at_once:  # any more
                    self.post([(worker, Command(sequence, Op.STEP)) for worker in range(self.num_workers)])
                    return
        self._busy_since = self._clock()
        self._backend.order_step(sequence)
        if self.journal is not None:
            self.journal.write_step(sequence, self.num_workers)

    def finish_step(self, sequence: int) -> Outcome | None:
        """As of the backend: as if ``poll`` had brought everybody's answer."""
        if not self._is_simple or self._kept:
            return None
        outcome = self._backend.finish_step(sequence)
        if outcome is not None and self.journal is not None:
            self.journal.finish_step(outcome.failures)
            if outcome.loose:
                self._last_seen.note(outcome)
            self._note_rest()
        return outcome

    def order_half(self, half: Half) -> None:
        """As ``post``, for one of two halves."""
        half.is_together = True
        if self.journal is not None:
            self._commands_until_maintenance -= 1
            if self._commands_until_maintenance <= 0:
                self._maintain()
                if not self.steps_at_once:  # any more
                    half.is_together = False
                    self.post(
                        [(worker, Command(half.sequence, Op.STEP_EACH, its)) for worker, its in half.steps.items()]
                    )
                    return
        self._backend.order_half(half)
        if self._busy_since is None:
            self._busy_since = self._clock()
        if self.journal is not None:
            self.journal.write_half(half)

    def finish_half(self, half: Half) -> Outcome | None:
        """As of the backend: as if ``poll`` had brought everybody's arrival."""
        if not half.is_together or not self._is_simple or self._kept:
            return None
        outcome = self._backend.finish_half(half)
        if outcome is not None and self.journal is not None:
            if outcome.loose:
                self._last_seen.note(outcome)
            if self.journal.finish_half(half, outcome.failures):
                self._note_rest()
        return outcome

    def replace(self, worker: int) -> None:
        """Done here, and not asked of here."""
        raise AssertionError("the supervisor decides who is replaced")

    def relieved(self) -> Backend:
        """The backend alone: from now on nobody watches it, and nothing is written down."""
        backend = self._backend
        self.journal = self._arena = None
        return backend

    def close(self, grace: float) -> list[str]:
        """As of the backend."""
        # What refers to the arena keeps its memory alive, where the caller may have views of it.
        for name in ("upkeep", "_one_by_one", "_last_seen", "_judge"):
            self.__dict__.pop(name, None)
        self.journal = self._arena = None
        return self._backend.close(grace)

    # -- taking in what happened -------------------------------------------------------------------------------------

    def _take_in(self, came: list[Event]) -> list[Event]:
        if self._is_simple and self.journal is not None and self.journal.answer_step(came):
            if self.journal.rounds.under_way is None:
                self._note_rest()
            return came
        events: list[Event] = []
        arrived: list[Arrival] = []
        deaths: list[Death] = []
        for event in came:
            if type(event) is Reply:
                if event.sequence >= OWN:
                    self._go_on(event)
                else:
                    self._note_answer(event)
                    events.append(event)
            elif type(event) is Arrival:
                arrived.append(event)
            elif type(event) is Arrivals:
                if self._is_simple and (self.journal is None or not self._one_by_one):
                    self._note_crowd(event)
                    events.append(event)
                else:
                    arrived.extend(Arrival(row, event.sequence, NOTHING) for row in event.rows)
            else:
                deaths.append(event)  # type: ignore[arg-type]
        if arrived:
            self._note_arrivals(arrived, events)
        for death in deaths:  # after what they had still finished
            self._mourn(death, events)
        return events

    def _note_answer(self, reply: Reply) -> None:
        worker, sequence, outcome = reply
        journal = self.journal
        if journal is not None and self._arena is not None:
            if journal.answer(worker, sequence, outcome.failures):
                self._note_rest()
            if outcome.loose:
                self._last_seen.note(outcome)
        if not self._is_simple:
            self._note_life(worker)

    def _note_life(self, worker: int) -> None:
        """A worker has answered: it is not late, and has earned a fresh allowance."""
        ward = self._wards[worker]
        ward.under_way = 0
        self._owed.pop(worker, None)
        if ward.deaths or ward.suspicion:
            ward.note_progress()
        if self._is_limited and self._arena is not None:
            self.upkeep.retirement.count_episodes(worker, self._rows[worker])
        self._note_simplicity()

    def _note_simplicity(self) -> None:
        is_special = self._watches or self._is_limited or self._owed or self._num_unwell
        self._is_simple = not is_special and not any(each.deaths or each.suspicion for each in self._wards)

    def _note_rest(self) -> None:
        """Nobody has anything to answer."""
        if self._busy_since is not None and self.journal is not None:
            self.journal.seconds += self._clock() - self._busy_since
            self._busy_since = None

    def _note_crowd(self, crowd: Arrivals) -> None:
        """The ordinary case of environments that answer for themselves."""
        if self.journal is not None:
            self.journal.arrive_together(crowd.rows, crowd.sequence)
            if not self.journal.has_open:
                self._note_rest()

    def _note_arrivals(self, arrived: list[Arrival], events: list[Event]) -> None:
        now = self._clock() if self._watches else 0.0
        failed = {row for row, _, outcome in arrived if outcome.failures}
        if self.journal is not None:
            self.journal.arrive([(row, sequence) for row, sequence, _ in arrived], failed)
        for arrival in arrived:
            row, sequence, outcome = arrival
            worker = self._worker_of[row]
            ward = self._wards[worker]
            if ward.deaths or ward.suspicion:
                ward.deaths.clear()
                ward.suspicion.acquit(row)
                ward.restored_at = None
            ward.asked_at = now
            if self._is_limited:
                self.upkeep.retirement.count_episodes(worker, range(row, row + 1))
            if self.journal is not None and outcome.loose:
                self._last_seen.note(outcome)
            if self.journal is not None and (worker, sequence) in self._one_by_one:
                self._one_by_one.collect(worker, sequence, outcome)
            else:
                ward.under_way -= 1
                events.append(arrival)
        if not self._is_simple:
            self._note_simplicity()
        if self.journal is None:
            return
        for reply in self._one_by_one.replies():
            self._note_answer(reply)
            events.append(reply)
        if not self.journal.has_open:
            self._note_rest()

    # -- deadlines ---------------------------------------------------------------------------------------------------

    def _judge_late(self) -> None:
        late = self._lateness.late()
        for worker in late:
            ward, row, stack = self._wards[worker], self._backend.progress(worker), self._backend.stack(worker)
            which = f"environment {row}" if row is not None else f"worker {worker}"
            ward.late = f"{which} took longer than {ward.deadline:g} s ({self._doing(worker)})"
            if stack:
                ward.late += f"; it was here:\n{textwrap.indent(stack, '    ')}"
            self._backend.kill(worker)
        if late and self.journal is None:
            reasons = "\n".join(self._wards[worker].late for worker in late)
            raise WorkerTimeout(
                f"{reasons}\n  {'Its worker was' if len(late) == 1 else 'Their workers were'} ended.\n"
                "  What to do: raise the timeout, or find out what the environment waits for."
            )

    # -- deaths ------------------------------------------------------------------------------------------------------

    def _mourn(self, death: Death, events: list[Event]) -> None:
        worker = death.worker
        if worker >= self.num_workers:
            self.upkeep.rehearser.conclude(None)
            return
        if self.journal is None:
            events.append(death)
            return
        ward, self._is_simple = self._wards[worker], False
        if ward.phase is Phase.WELL:
            ward.died_at = self._clock()
        if ward.is_leaving:
            ward.is_leaving = False
            self._replace(worker)
            return
        if self._arena is None:
            is_making = worker in self._owed or ward.phase is Phase.MAKING
            logger.warning("%s", judge_construction(death, ward, self._backend, self._rows, is_making=is_making))
        else:
            forgotten = self.upkeep.has_forgotten
            life = 0.0 if ward.restored_at is None else self._clock() - ward.restored_at
            verdict = self._judge.judge(death, ward, self._doing(worker), self._backend, life, has_forgotten=forgotten)
            logger.warning("%s", verdict)
        self.stats.restarts += 1
        self._sleep(PAUSES[min(len(ward.deaths), len(PAUSES)) - 1] if ward.deaths else 0.0)
        self._replace(worker)

    def _doing(self, worker: int) -> str:
        ward = self._wards[worker]
        if ward.phase is not Phase.WELL:
            return str(ward.phase.value)
        pending = self.journal.pending(worker) if self.journal is not None else []
        if pending or ward.under_way:
            op = pending[0][0].op if pending else ward.op
            return "making its environments" if op is None or op is Op.CONSTRUCT else f"in {op.label}()"
        return "waiting for work" if self._arena is not None else "making its environments"

    # -- replacing ---------------------------------------------------------------------------------------------------

    def _replace(self, worker: int) -> None:
        ward = self._wards[worker]
        if ward.phase is Phase.WELL:
            self._num_unwell += 1
        ward.phase, ward.under_way = Phase.MAKING, 0
        self._missing.add(worker)  # until there is another, whatever interrupts this
        try:
            self._start_replacement(worker)
        except CannotStart:
            pass  # the next poll tries again, and says so

    def _start_replacement(self, worker: int) -> None:
        self._backend.replace(worker)
        self._missing.discard(worker)
        self.ask(worker, self._wards[worker], Op.CONSTRUCT)

    def _replace_missing(self) -> None:
        is_made = self._arena is not None and not self._owed
        for worker in sorted(self._missing):
            try:
                self._start_replacement(worker)
            except CannotStart as error:
                deaths = self._wards[worker].deaths
                what = deaths[-1] if deaths else f"worker {worker} has ended."
                if not is_made:
                    raise WorkerDied(f"{what}\n  It cannot be replaced: {error}\n  {NOT_MADE}") from error
                raise type(error)(f"{what}\n  It cannot be replaced yet: {error}\n  {GO_ON}") from error

    def ask(self, worker: int, ward: Ward, op: Op, payload: Any = None) -> None:
        """Ask a worker something of our own; :meth:`_go_on` gets the answer."""
        self._own_sequence += 1
        ward.awaits = self._own_sequence
        if self._watches:
            self._lateness.note_request(ward, op, payload)
        self._backend.post([(worker, Command(self._own_sequence, op, payload))])

    def _go_on(self, reply: Reply) -> None:
        """A replacement, or a spare worker, has finished a phase: begin the next."""
        worker, sequence, outcome = reply
        ward = self._wards[worker] if worker < self.num_workers else self.upkeep.rehearser.ward
        if sequence != ward.awaits or ward.phase is Phase.WELL:
            return
        if worker >= self.num_workers:
            self.upkeep.rehearser.go_on(outcome)
        elif ward.phase is Phase.MAKING:
            if outcome.failures and (self._arena is not None or worker not in self._owed):
                raise WorkerCrashLoop(
                    f"the replacement of worker {worker} could not make its environments again:\n"
                    + as_error(outcome.failures[0], "").message
                )
            if self._arena is None:
                self._recover(worker, ward, outcome)
                return
            self.upkeep.retirement.weigh_when_new(worker)
            ward.phase = Phase.ATTACHING
            self.ask(worker, ward, Op.ATTACH, self._attachment)
        elif ward.phase is Phase.ATTACHING:
            assert self.journal is not None
            ward.phase = Phase.REPLAYING
            suspicion, ward.restored_at = ward.suspicion, self._clock()
            caution = suspicion.caution if suspicion.may_part else None
            replay = self.journal.replay(worker)._replace(caution=caution)
            self.stats.replayed_steps += sum(len(one.rows) for one in replay.redo if one.op in (Op.STEP, Op.RESET))
            self.ask(worker, ward, Op.RESTORE, replay)
        elif outcome.values and ward.suspicion.caution is not None and ward.suspicion.may_part:
            # Perhaps they share something, and have to be brought back together.
            ward.suspicion.may_part = False
            self._backend.kill(worker)
        elif outcome.values:
            self._diverged(worker, ward, dict(outcome.values))
        else:
            self._resume(worker, ward)

    def _diverged(self, worker: int, ward: Ward, differing: dict[int, str]) -> None:
        where = next(iter(differing.values()))
        message = (
            f"worker {worker} died, and its environments could not be brought back to where they were: "
            f"{where} gave another result than the first time, for the same seed and actions.\n"
            "  Likely cause: it is not deterministic (a clock, unseeded or shared random numbers, a network); "
            "shoal.testing.check_restorable finds out."
        )
        if self._care.on_fault != "truncate":
            raise ReplayDiverged(f'{message}\n  What to do: cure it, or pass on_fault="truncate" or "raise".')
        assert self.journal is not None
        for row, place in differing.items():
            fault = Fault(kind="diverged", signal=None, exit_code=None, message=message.replace(where, place))
            self._judge.lose(worker, [row], fault)
        logger.warning("%s\n  The episodes of environments %s end here.", message, sorted(differing))
        self.ask(worker, ward, Op.RESTORE, Replay([], {row: self.journal.starts[row] for row in differing}))

    def _resume(self, worker: int, ward: Ward) -> None:
        """Ask again what had not been answered."""
        assert self.journal is not None
        self._recover(worker, ward, Outcome.empty())
        for command, one in self.journal.pending(worker):
            self.journal.restore_actions(command, one, worker)
            caution, is_step = ward.suspicion.caution, command.op in (Op.STEP, Op.STEP_EACH)
            if is_step and (caution is not None or (worker, command.sequence) in self._one_by_one):
                command = self._one_by_one.arranged(worker, command, caution)
            if self._watches:
                self._lateness.note_departure([(worker, command)])
            self._backend.post([(worker, command)])

    def _recover(self, worker: int, ward: Ward, outcome: Outcome) -> None:
        """A replacement is where the dead worker was."""
        ward.phase, ward.under_way = Phase.WELL, 0
        self._num_unwell -= 1
        self.stats.seconds_lost += self._clock() - ward.died_at
        if worker in self._owed:
            self._kept.append(Reply(worker, self._owed.pop(worker), outcome))
        if self._arena is None:
            self._note_life(worker)

    # -- branching ---------------------------------------------------------------------------------------------------

    def past_of(self, row: int) -> Past:
        """How an environment that has nothing to do got to where it is now."""
        assert self.journal is not None
        worker = self._worker_of[row]
        return self.journal.past_of(row, worker, self._recipes[worker].entropy)

    def pasts(self) -> dict[int, Past]:
        """The same of all environments."""
        assert self.journal is not None
        pasts: dict[int, Past] = {}
        for worker, recipe in enumerate(self._recipes):
            pasts |= self.journal.pasts_of(worker, recipe.entropy)
        return pasts

    def follow(self, pasts: Mapping[int, Past]) -> None:
        """Bring environments to where others have been. None may have anything to do."""
        assert self.journal is not None
        starts: dict[int, Start] = {}
        for row, past in pasts.items():
            starts[row] = Start(self.journal.last_sequence + 1, past=past_for(past, row))
        self.journal.begin_from(starts)
        for worker in sorted({self._worker_of[row] for row in starts}):
            ward = self._wards[worker]
            its = {row: start for row, start in starts.items() if self._worker_of[row] == worker}
            if ward.phase is Phase.WELL:
                check_followed(self.asked(worker, Op.RESTORE, Replay([], its)))
        self._settle()

    def _settle(self) -> None:
        """Wait until nobody is being replaced."""
        while self._num_unwell:
            kept, self._kept = self._kept, []
            try:
                kept += self.poll(None)
            finally:
                self._kept[:0] = kept

    # -- taking the place of another ---------------------------------------------------------------------------------------

    def begin_replays(self, replays: Mapping[int, Replay]) -> None:
        """Let idle workers do what those of another session have done."""
        for worker, replay in replays.items():
            self.ask(worker, self._wards[worker], Op.RESTORE, replay)
            self._following.add(self._wards[worker].awaits)

    def replays_left(self, timeout: float | None) -> int:
        """Wait for so long at most until one is done; returns how many workers are not. Raises if one could not."""
        for event in self._backend.poll(timeout) if self._following else ():
            if isinstance(event, Death):
                raise WorkerDied(f"worker {event.worker} (pid {event.pid}) has died meanwhile")
            if isinstance(event, Reply) and event.sequence in self._following:
                self._following.discard(event.sequence)
                check_followed(event.outcome)
        return len(self._following)

    def follow_on(self, other: Supervisor, group_size: int) -> None:
        """Take the place of another supervisor, whose environments are the same and have nothing to do."""
        assert self.journal is not None
        assert other.journal is not None
        self.journal.adopt(other.journal, group_size)
        self.upkeep.shortener.adopt(other.upkeep.shortener)
        self._last_seen.adopt(other._last_seen)
        vars(self.stats).update(vars(other.stats))

    # -- upkeep ------------------------------------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """Whether nobody is being replaced."""
        return not self._num_unwell

    def _maintain(self) -> None:
        """Let everything be seen to that is seen to from time to time."""
        self._commands_until_maintenance = MAINTENANCE if not self._is_limited else 1
        with forbidden:  # what is waited for here is not what the caller has asked for
            if self.upkeep.rehearser.is_busy:
                self.let_happen(0.0)  # whoever steps at once hears nothing of others
            self.upkeep.see_to_everything()

    @property
    def nbytes_seen(self) -> int:
        """About how much memory the last observations take that are not in the journal."""
        return self._last_seen.nbytes

    def count_time(self) -> None:
        """Count the time until now in which workers have been at work: perhaps somebody always is."""
        if self._busy_since is not None:
            self._note_rest()
            self._busy_since = self._clock()

    def let_happen(self, seconds: float | None) -> None:
        """Wait until something happens, for so long at most, and keep for the caller what it has to know of it."""
        if self._missing:
            self._replace_missing()
        self._kept.extend(self._take_in(self._backend.poll(seconds)))

    def captured(self, worker: int) -> bytes | str | None:
        """The state of an idle worker's environments, or why there is none; ``None`` if the worker died."""
        outcome = self.asked(worker, Op.CAPTURE)
        return None if outcome is None else outcome.values[0][1]

    def dismiss(self, worker: int) -> None:
        """Ask a worker to leave."""
        self._own_sequence += 1
        self._backend.post([(worker, Command(self._own_sequence, Op.CLOSE))])

    def asked(self, worker: int, op: Op, payload: Any = None) -> Outcome | None:
        """Ask an idle worker something, and wait for the answer; ``None`` if it died, and is being replaced."""
        ward = self._wards[worker]
        self.ask(worker, ward, op, payload)
        asked = ward.awaits
        while True:
            came = self._backend.poll(self._lateness.patience(None))
            replies = [event for event in came if isinstance(event, Reply) and event.sequence == asked]
            if replies:
                ward.under_way = 0
            self._kept.extend(self._take_in(came))
            if replies:
                return replies[0].outcome
            if ward.phase is not Phase.WELL:
                return None
            if not came and self._watches:
                self._judge_late()


def check_followed(outcome: Outcome | None) -> None:
    """Refuse environments that came to something else than those they should follow."""
    if outcome is not None and outcome.values:
        raise ReplayDiverged(
            f"{outcome.values[0][1]} gave another result than the environment it should follow.\n"
            "  Likely cause: it is not deterministic, or is not made like the other one."
        )
