"""A rig in a cell: what it has been through, and whether it is still in."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable

from benchmarks.throughput.cells import Cell
from benchmarks.throughput.host import Host, RigError
from benchmarks.throughput.lineup import stays_started
from benchmarks.throughput.plan import Plan
from benchmarks.throughput.results import RigResult
from benchmarks.throughput.watch import Watch
from benchmarks.throughput.workload import Workload

_FIRST_ROUNDS = 2
_WARM_UP_PIECE = 0.1
SETTLING_SECONDS = 0.01
"""After a rig has been frozen, until everybody is awake and what they need is near."""


class Contestant:
    """Starts, takes its turns and leaves; a failure takes it out for good."""

    def __init__(self, host: Host, cell: Cell, workload: Workload, plan: Plan, problem: str | None) -> None:
        self.spec = host.spec
        self.rates: list[float] = []
        self.disturbed = 0
        self.rounds: int | None = None
        self.problem = problem
        self.stays = stays_started(host.spec, cell)
        self._host = host
        self._workload, self._plan = workload, plan
        self._is_scaled = not cell.waits
        self._remark: str | None = None

    def enter(self) -> None:
        if self.stays:
            self._start()

    def take_turn(self, ideal_rate: float | None, watch: Watch) -> None:
        if not self.stays:
            self._start()
        if self.rounds is None:
            self.rounds = self._rounds_of_a_turn(ideal_rate)
        settling = self._rounds_lasting(SETTLING_SECONDS, self.warm_rate)
        measure = functools.partial(self._host.measure_thawed, settling, self.rounds)
        rate = watch.steady_rate(measure, self._plan.patience_seconds, scaled=self._is_scaled)
        self.rates.append(rate.value)
        self.disturbed += not rate.steady
        if not self.stays:
            self._host.close()

    def leave(self) -> None:
        if self.stays and self.problem is None:
            # Its rates are taken and stand; a host that cannot close has been ended instead.
            with contextlib.suppress(RigError):
                self._host.close()

    def attempt(self, action: Callable[[], None]) -> None:
        """Run one of its actions, unless it has failed before; a failure takes it out for good."""
        if self.problem is None:
            try:
                action()
            except RigError as failure:
                self.problem = str(failure)

    def result(self) -> RigResult:
        spec = self.spec
        # A rig that failed halfway has no comparable rates.
        rates = tuple(self.rates) if self.problem is None else ()
        return RigResult(
            spec.name,
            spec.library,
            spec.role,
            spec.way,
            self.rounds,
            rates,
            self.disturbed,
            remark=self._remark,
            not_run=self.problem,
        )

    def _start(self) -> None:
        self._host.start(self._workload)
        self.warm_rate = self._host.measure(_FIRST_ROUNDS)
        end = time.monotonic() + self._plan.warm_up_seconds
        while time.monotonic() < end:
            self.warm_rate = self._host.measure(self._rounds_lasting(_WARM_UP_PIECE, self.warm_rate))
        self._remark = self._host.remark()
        self._host.freeze()

    def _rounds_of_a_turn(self, ideal_rate: float | None) -> int:
        """As many as ideal does in its time, unless that would take too long; where there is no ideal, in its own."""
        plan = self._plan
        rounds = self._rounds_lasting(plan.ideal_seconds, self.warm_rate if ideal_rate is None else ideal_rate)
        if ideal_rate is not None:
            rounds = min(rounds, self._rounds_lasting(plan.longest_seconds, self.warm_rate))
        cycle = self._workload.cost.cycle
        return math.ceil(rounds / cycle) * cycle

    def _rounds_lasting(self, seconds: float, rate: float) -> int:
        return rounds_lasting(seconds, rate, self._workload.num_envs)


def rounds_lasting(seconds: float, rate: float, num_envs: int) -> int:
    """Rounds that take about so long at this rate."""
    return max(1, math.ceil(seconds * rate / num_envs))
