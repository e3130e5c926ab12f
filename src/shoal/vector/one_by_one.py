"""A step that is taken one environment after the other, because one of them has ended its worker again and again.

The others' steps are reported and written down before a suspect's is taken, so that its next death costs no other environment
anything. For the pool it is one step: what the environments report is collected until all of them have.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoal.vector.infos import by_environment
from shoal.vector.journal import Journal
from shoal.vector.messages import Caution, Command, Op, Outcome, Pace, Reply, Steps


class OneByOne:
    """The steps that are taken like this now."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._so_far: dict[tuple[int, int], Outcome] = {}
        """What has come of it: by worker and command."""

    def __bool__(self) -> bool:
        return bool(self._so_far)

    def __contains__(self, step: tuple[int, int]) -> bool:
        return step in self._so_far

    def arranged(self, worker: int, command: Command, caution: Caution | None) -> Command:
        """The same step, one environment after the other, suspects last."""
        steps = command.payload or Steps(self._journal.rows[worker], [], ())
        rows = steps.rows if caution is None else caution.in_order(steps.rows)
        if command.op is Op.STEP:
            self._so_far.setdefault((worker, command.sequence), Outcome.empty())
        return Command(command.sequence, Op.STEP_EACH, Steps(rows, steps.loose, steps.wide, Pace.ALONE, caution))

    def collect(self, worker: int, sequence: int, outcome: Outcome) -> None:
        """One environment has taken its step."""
        so_far = self._so_far[worker, sequence]
        so_far.infos.extend(outcome.infos)
        so_far.loose.extend(outcome.loose)
        so_far.failures.extend(outcome.failures)

    def replies(self) -> Iterator[Reply]:
        """Those steps that all environments have taken."""
        for worker, sequence in list(self._so_far):
            if not self._journal.is_pending(worker, sequence):
                infos, loose, failures, values = self._so_far.pop((worker, sequence))
                in_order = sorted(by_environment(infos).items())
                yield Reply(worker, sequence, Outcome([*in_order], loose, failures, values))
