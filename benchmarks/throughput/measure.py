"""One cell: start everybody, warm up, then take turns.

    repeat 1:  rig A · rig B · … · ideal
    repeat 2:  rig A · rig B · … · ideal
       …

A turn is a fixed number of rounds between two looks at the machine, taken again until it was steady.
Who is not in turn is frozen; a rig that holds a crowd of processes lives only for its turn. Taking turns
spreads whatever the machine does meanwhile over all rigs alike.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

from benchmarks.throughput.calibration import Calibration
from benchmarks.throughput.cells import Cell
from benchmarks.throughput.host import Host, RigError
from benchmarks.throughput.plan import Plan
from benchmarks.throughput.results import CellResult, RigResult, best, compare
from benchmarks.throughput.watch import Watch
from benchmarks.throughput.work_env import Workload

_FIRST_ROUNDS = 2
_WARM_UP_SECONDS = 0.1
SETTLING_SECONDS = 0.01
"""After a rig has been frozen, until everybody is awake and what they need is near."""


class Contestant:
    """A rig in a cell: what it has been through, and whether it is still in."""

    def __init__(self, host: Host, cell: Cell, workload: Workload, problem: str | None) -> None:
        self.spec = host.spec
        self.rates: list[float] = []
        self.disturbed = 0
        self.rounds: int | None = None
        self.problem = problem
        self._host = host
        self._workload = workload
        self.stays = host.spec.stays_started(cell)

    def enter(self) -> None:
        if self.stays:
            self._start()

    def take_turn(self, plan: Plan, most_rounds: int, watch: Watch) -> None:
        if not self.stays:
            self._start()
        if self.rounds is None:
            longest = rounds_lasting(plan.longest_seconds, self.warm_rate, self._workload.num_envs)
            self.rounds = min(most_rounds, longest)
        settling = rounds_lasting(SETTLING_SECONDS, self.warm_rate, self._workload.num_envs)
        measure = functools.partial(self._host.measure_thawed, settling, self.rounds)
        rate = watch.steady_rate(measure, plan.patience_seconds)
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

    def _start(self) -> None:
        self._host.start(self._workload)
        self.warm_rate = self._warm_up()
        self._host.freeze()

    def _warm_up(self) -> float:
        rate = self._host.measure(_FIRST_ROUNDS)
        return self._host.measure(rounds_lasting(_WARM_UP_SECONDS, rate, self._workload.num_envs))

    def result(self) -> RigResult:
        spec = self.spec
        # A rig that failed halfway has no comparable rates.
        rates = tuple(self.rates) if self.problem is None else ()
        return RigResult(spec.name, spec.library, spec.role, self.rounds, rates, self.disturbed, not_run=self.problem)


def measure_cell(
    cell: Cell,
    hosts: Sequence[Host],
    problems: dict[str, str],
    calibration: Calibration,
    plan: Plan,
    watch: Watch,
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
    for contestant in contestants:
        say(f"{cell.title}: starting {contestant.spec.name}")
        contestant.attempt(contestant.enter)
    if ideal.problem is not None:
        raise RigError(f"the ideal could not be measured: {ideal.problem}")
    rounds = rounds_lasting(plan.ideal_seconds, ideal.warm_rate, cell.num_envs)
    for repeat in range(plan.repeats):
        for contestant in contestants:
            if repeat < (plan.repeats if contestant.stays else plan.crowd_repeats):
                say(f"{cell.title}: repeat {repeat + 1} of {plan.repeats}, {contestant.spec.name}")
                contestant.attempt(functools.partial(contestant.take_turn, plan, rounds, watch))
    for contestant in contestants:
        contestant.leave()
    results = [contestant.result() for contestant in contestants]
    measured = [rig for rig in results if rig.not_run is None]
    disturbed_share = sum(rig.disturbed for rig in measured) / sum(len(rig.rates) for rig in measured)
    return _cell_result(cell, workload, disturbed_share, results)


def rounds_lasting(seconds: float, rate: float, num_envs: int) -> int:
    """Rounds that take about so long at this rate."""
    return max(_FIRST_ROUNDS, math.ceil(seconds * rate / num_envs))


def _cell_result(cell: Cell, workload: Workload, disturbed_share: float, rigs: Sequence[RigResult]) -> CellResult:
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
        disturbed_share=disturbed_share,
        rigs=compared,
        **fields,
    )
