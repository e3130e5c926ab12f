"""What follows from a worker's death: whom it concerns, who is given up, and when it is too much.

Restarts are limited by deaths without progress: when a worker answers, its count begins anew. The same goes for deaths while
environments are made for the first time. An environment that is found to end its worker (``suspicion.py``) is given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from shoal.vector.backends.base import Backend
from shoal.vector.engine import Care
from shoal.vector.errors import PoisonStep, ProtocolError, WorkerCrashLoop, WorkerDied, WorkerTimeout
from shoal.vector.journal import Journal
from shoal.vector.last_seen import LastSeen
from shoal.vector.layout import Arena
from shoal.vector.messages import Death, Op
from shoal.vector.post_mortem import describe_death, last_words_of, whereabouts_of
from shoal.vector.starts import Fault, Lost, Start
from shoal.vector.wards import Phase, Stats, Ward, fault_info

# Deaths without progress that are still answered with a replacement, and one more for each worker: they may kill each other.
ALLOWANCE = 8
LATE = 3  # deaths for taking too long to make environments after which it is enough


class Verdict(NamedTuple):
    """What is known of a death, and what it costs."""

    report: str
    given_up: Sequence[int]
    """Environments whose episode ends with it."""

    def __str__(self) -> str:
        rows = self.given_up
        where = f", except the episode of environment {rows[0]}, which ends" if rows else " to where they were"
        return f"{self.report}\n  It is replaced, and its environments are brought back{where}."


def judge_construction(death: Death, ward: Ward, backend: Backend, rows: Sequence[range], *, is_making: bool) -> str:
    """Count a death before all environments have been made; say what is known of it, or raise if it is one too many."""
    worker, row = death.worker, backend.progress(death.worker)
    its = rows[worker]
    which = f"environment {row}" if row is not None else f"its environments ({its.start} to {its.stop - 1})"
    doing = f"making {which}" if is_making else "waiting for the others to make theirs"
    words = last_words_of(backend, worker)
    report = describe_death(death, doing, its, rows[-1].stop, words=words, late=ward.late)
    ward.deaths.append(report.splitlines()[0])
    is_late, ward.late = bool(ward.late), ""
    if is_late:  # each costs as much time as is allowed
        ward.num_late += 1
    if len(ward.deaths) > ALLOWANCE + len(rows) or ward.num_late >= LATE:
        kind = WorkerTimeout if is_late else ProtocolError if death.babble else WorkerDied
        raise kind(
            f"{report}\n  It was tried {len(ward.deaths)} times, and ended like this or in another way each time."
        )
    return f"{report}\n  It is replaced, and its environments are made again."


class Judge:
    """Of workers whose environments can be brought back."""

    def __init__(self, journal: Journal, arena: Arena, last_seen: LastSeen, care: Care, stats: Stats) -> None:
        self._journal, self._arena, self._last_seen, self._care, self._stats = journal, arena, last_seen, care, stats

    def judge(
        self, death: Death, ward: Ward, doing: str, backend: Backend, life: float, *, has_forgotten: bool
    ) -> Verdict:
        """Count a death; say who cannot be brought back, or raise if that is not allowed.

        ``life``: how many seconds ago environments were brought back, or zero if they have got further since.
        ``has_forgotten``: whether nobody can be brought back, because history had become too long to be kept.
        """
        worker, journal = death.worker, self._journal
        row = backend.progress(worker)
        report = describe_death(
            death,
            f"{doing}, at {f'environment {row}' if row is not None else 'no environment'}",
            journal.rows[worker],
            journal.rows[-1].stop,
            words=last_words_of(backend, worker),
            where=whereabouts_of(journal, self._arena, worker, row),
            late=ward.late,
        )
        ward.deaths.append(report.splitlines()[0])
        fault = fault_info(death, report, ward.late)
        is_late, ward.late = bool(ward.late), ""
        may_lose, may_die = self._care.on_fault == "truncate", len(ward.deaths) <= ALLOWANCE + len(journal.rows)
        if has_forgotten and not may_lose:
            raise WorkerCrashLoop(
                f"{report}\n  Its environments cannot be brought back: their history had become too long to be kept."
            )
        if (has_forgotten or not self._care.is_replayable) and may_die:
            self.lose(worker, journal.rows[worker], fault)
            return Verdict(report, journal.rows[worker])
        # What a worker has done after it closed its connection says nothing about who closed it.
        step = self._own_step(worker, row, ward) if is_late else None
        if row is not None and step is not None:
            is_guilty = ward.suspicion.note_hang(row, step)
        else:
            is_guilty = self._is_guilty(worker, None if death.has_hung_up else row, ward, life)
        if is_guilty:
            if not may_lose:
                times = ward.suspicion.num_deaths
                found = f"has ended its worker {times} times in the same step or right after it, at last alone"
                found = "has again and again taken too long in the same step" if step is not None else found
                raise (WorkerTimeout if is_late else PoisonStep)(
                    f'environment {row} {found}:\n{report}\n  With on_fault="truncate" only its episode would end.'
                )
            assert row is not None
            ward.note_progress()
            self.lose(worker, [row], fault)
            return Verdict(report, [row])
        if not may_die:
            raise (WorkerTimeout if is_late else WorkerCrashLoop)(
                f"worker {worker} has died {len(ward.deaths)} times without getting any further:\n  "
                + "\n  ".join(ward.deaths)
                + f"\n  {report.partition(chr(10))[2].strip()}"
            )
        return Verdict(report, ())

    def _own_step(self, worker: int, row: int | None, ward: Ward) -> int | None:
        """The command in which this environment was taking a step for which it has its own time."""
        if row is None or ward.phase is not Phase.WELL or ward.op is not Op.STEP_EACH:
            return None
        return self._pending_step(worker, row)

    def _is_guilty(self, worker: int, row: int | None, ward: Ward, life: float) -> bool:
        """Count what this death says about the worker's environments; whether it is proof against this one."""
        suspicion = ward.suspicion
        if ward.phase is Phase.WELL:
            step = self._pending_step(worker, row)
            if step is None and self._journal.is_pending(worker):
                return False  # a reset or a call, which cannot be taken apart
        elif ward.phase is Phase.REPLAYING:
            step, row = None, row if suspicion.may_part else None
        else:
            return False  # while they are made, nothing is done that they have been asked
        return suspicion.note_death(self._journal.rows[worker], row, step, life)

    def _pending_step(self, worker: int, row: int | None) -> int | None:
        """The command in which this environment, or who knows which, was taking a step."""
        for command, _ in self._journal.pending(worker):
            if command.op not in (Op.STEP, Op.STEP_EACH):
                continue
            if row is None or command.payload is None or row in command.payload.rows:
                return command.sequence
        return None

    def lose(self, worker: int, rows: Iterable[int], fault: Fault) -> None:
        """Let these environments begin anew, and their episodes end."""
        pending = {
            row: command.sequence
            for command, _ in self._journal.pending(worker)
            for row in command.rows(self._journal.rows[worker])
        }
        for row in rows:
            reset_in, episode, seed_word = self._arena.origins[row, :3].tolist()
            if reset_in == pending.get(row):
                episode -= 1  # that reset was not finished, and will be tried again
            random = np.random.SeedSequence([row, episode, seed_word])
            lost = Lost(self._last_seen.observation(row), fault, int(random.generate_state(1)[0]))
            sequence = pending.get(row, self._journal.last_sequence + 1)
            start = Start(sequence, episode, seed_word - 1 if seed_word else None, lost=lost)
            self._journal.begin_from({row: start})
            self._stats.lost_episodes += 1
