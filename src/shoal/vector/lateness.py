"""Who is late: how long workers have been at what they were asked, and how long they may."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.vector.backends.base import Addressed
from shoal.vector.messages import EACH, Op, Replay
from shoal.vector.wards import Deadlines, Ward

_CALLS = frozenset((Op.CALL, Op.SET_ATTR, Op.CAPTURE))


class Lateness:
    """Watches the deadlines of all workers. False if there are none, and then it need not be asked."""

    def __init__(self, deadlines: Deadlines, wards: Sequence[Ward], clock: Callable[[], float]) -> None:
        self._deadlines, self._wards, self._clock = deadlines, wards, clock
        self._is_watching = bool(deadlines)

    def __bool__(self) -> bool:
        return self._is_watching

    def note_departure(self, commands: Sequence[Addressed]) -> None:
        """These were given to their workers. What an environment answers for itself has its time from the answer before."""
        now = self._clock()
        for worker, (_, op, payload) in commands:
            ward = self._wards[worker]
            if not ward.under_way:
                ward.asked_at = now
            ward.op, ward.deadline, ward.pauses = op, self._deadline_for(op), 0.0
            if op in EACH:
                ward.under_way += len(payload if op is Op.RESET_EACH else payload.rows)
                if op is Op.STEP_EACH and payload.caution is not None:
                    ward.pauses = payload.caution.seconds
            else:
                ward.under_way = 1

    def note_request(self, ward: Ward, op: Op, payload: object) -> None:
        """The supervisor has asked something itself. A replay has the time of all its steps."""
        ward.op, ward.asked_at, ward.under_way = op, self._clock(), 1
        ward.deadline, ward.pauses = self._deadline_for(op), 0.0
        if isinstance(payload, Replay) and self._deadlines.step is not None:
            # Perhaps each environment had had so long for each of them.
            ward.deadline = self._deadlines.step * (sum(len(one.rows) for one in payload.redo) + 1)
            if payload.caution is not None:
                ward.deadline *= len(payload.caution.suspects) + 1
                ward.pauses = payload.caution.seconds

    def _deadline_for(self, op: Op) -> float | None:
        if op in (Op.STEP, Op.STEP_EACH):
            return self._deadlines.step
        if op in (Op.RESET, Op.RESET_EACH):
            return self._deadlines.reset
        if op in _CALLS:
            return self._deadlines.call
        return self._deadlines.construct if op in (Op.CONSTRUCT, Op.ATTACH) else None

    def patience(self, timeout: float | None) -> float | None:
        """How long to wait before somebody may be late, and no longer than ``timeout``."""
        now = self._clock()
        limits = [] if timeout is None else [timeout]
        limits += [
            max(0.0, ward.asked_at + ward.deadline + ward.pauses - now)
            for ward in self._wards
            if ward.under_way and ward.deadline is not None
        ]
        return min(limits, default=None)

    def forgive(self, seconds: float) -> None:
        """Nobody could be watched for so long, and perhaps nobody could work."""
        for ward in self._wards:
            ward.asked_at += seconds

    def late(self) -> list[int]:
        """Workers that have had more time than they may, and have not been ended for it."""
        now = self._clock()
        return [
            worker
            for worker, ward in enumerate(self._wards)
            if ward.under_way
            and ward.deadline is not None
            and now - ward.asked_at >= ward.deadline + ward.pauses
            and not ward.late
        ]
