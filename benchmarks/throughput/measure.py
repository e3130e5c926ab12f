"""One cell: start everybody, warm up, then take turns.

    repeat 1:  rig A · rig B · … · ideal
    repeat 2:  rig A · rig B · … · ideal
       …

A repeat is a fixed number of rounds per rig. Rigs that are not quiet when idle, or that hold a
crowd of processes, live only for their own turn. Taking turns spreads whatever the machine does
meanwhile over all rigs alike.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Sequence

from benchmarks.throughput.calibration import Calibration
from benchmarks.throughput.cells import Cell
from benchmarks.throughput.host import Host, RigError
from benchmarks.throughput.machine import busy_share
from benchmarks.throughput.plan import Plan
from benchmarks.throughput.results import CellResult, RigResult, best, compare
from benchmarks.throughput.work_env import Workload

_FIRST_ROUNDS = 3
_WARM_UP_SECONDS = 0.1
_LISTENING_SECONDS = 0.2


class Contestant:
    """A rig in a cell: what it has been through, and whether it is still in."""

    def __init__(self, host: Host, cell: Cell, workload: Workload, problem: str | None) -> None:
        self.spec = host.spec
        self.rates: list[float] = []
        self.rounds: int | None = None
        self.problem = problem
        self._host = host
        self._workload = workload
        self._stays = host.spec.stays_started(cell)

    def enter(self) -> None:
        if self._stays:
            self._start()

    def take_turn(self, plan: Plan, most_rounds: int) -> None:
        if not self._stays:
            self._start()
        if self.rounds is None:
            longest = rounds_lasting(plan.longest_seconds, self.warm_rate, self._workload.num_envs)
            self.rounds = min(most_rounds, longest)
        self.rates.append(self._host.measure(self.rounds))
        if not self._stays:
            self._host.close()

    def leave(self) -> None:
        if self._stays and self.problem is None:
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

    def _start(self) -> None:
        self._host.start(self._workload)
        self.warm_rate = self._warm_up()

    def _warm_up(self) -> float:
        rate = self._host.measure(_FIRST_ROUNDS)
        return self._host.measure(rounds_lasting(_WARM_UP_SECONDS, rate, self._workload.num_envs))

    def result(self) -> RigResult:
        spec = self.spec
        # A rig that failed halfway has no comparable rates.
        rates = tuple(self.rates) if self.problem is None else ()
        return RigResult(spec.name, spec.library, spec.role, self.rounds, rates, not_run=self.problem)


def measure_cell(
    cell: Cell,
    hosts: Sequence[Host],
    problems: dict[str, str],
    calibration: Calibration,
    plan: Plan,
    say: Callable[[str], None],
) -> CellResult:
    """Measure one cell with these rigs, the ideal last among them."""
    workload = Workload(
        num_envs=cell.num_envs,
        turns=calibration.turns(cell.step_microseconds),
        observation_shape=cell.observation.shape,
        dtype=cell.observation.dtype,
    )
    contestants = [
        Contestant(
            host,
            cell,
            workload,
            problems.get(host.spec.name) or host.spec.reason_to_sit_out(cell),
        )
        for host in hosts
    ]
    *_, ideal = contestants
    disturbances = []
    for contestant in contestants:
        say(f"{cell.title}: starting {contestant.spec.name}")
        contestant.attempt(contestant.enter)
    if ideal.problem is not None:
        raise RigError(f"the ideal could not be measured: {ideal.problem}")
    rounds = rounds_lasting(plan.ideal_seconds, ideal.warm_rate, cell.num_envs)
    for repeat in range(plan.repeats):
        disturbances.append(busy_share(_LISTENING_SECONDS))
        for contestant in contestants:
            say(f"{cell.title}: repeat {repeat + 1} of {plan.repeats}, {contestant.spec.name}")
            contestant.attempt(functools.partial(contestant.take_turn, plan, rounds))
    for contestant in contestants:
        contestant.leave()
    heard = [share for share in disturbances if share is not None]
    return _cell_result(
        cell,
        workload,
        statistics.median(heard) if heard else None,
        [contestant.result() for contestant in contestants],
    )


def rounds_lasting(seconds: float, rate: float, num_envs: int) -> int:
    """Rounds that take about so long at this rate."""
    return max(_FIRST_ROUNDS, math.ceil(seconds * rate / num_envs))


def _cell_result(cell: Cell, workload: Workload, disturbance: float | None, rigs: Sequence[RigResult]) -> CellResult:
    compared = compare(tuple(rigs))
    best_peer, best_shoal = best(compared, "peer"), best(compared, "shoal")
    fields = dataclasses.asdict(workload)
    return CellResult(
        name=cell.name,
        title=cell.title,
        step_microseconds=cell.step_microseconds,
        pictured=cell.pictured,
        best_peer=best_peer.name if best_peer else None,
        best_shoal=best_shoal.name if best_shoal else None,
        disturbance=disturbance,
        rigs=compared,
        **fields,
    )
