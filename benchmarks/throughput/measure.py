"""One cell: start everybody, warm up, then take turns.

    repeat 1:  rig A · rig B · … · ideal
    repeat 2:  rig A · rig B · … · ideal
       …

A turn is a fixed number of rounds between two looks at the machine, taken again until it was steady.
Who is not in turn is frozen; a rig that holds a crowd of processes lives only for its turn. Taking turns
spreads whatever the machine does meanwhile over all rigs alike.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence

from benchmarks.throughput.calibration import Calibration
from benchmarks.throughput.cells import Cell
from benchmarks.throughput.comparing import best_peer, with_medians, with_ratios
from benchmarks.throughput.contestant import Contestant
from benchmarks.throughput.host import Host, RigError
from benchmarks.throughput.plan import Plan
from benchmarks.throughput.results import CellResult, RigResult
from benchmarks.throughput.rigs.catalogue import IDEAL
from benchmarks.throughput.watch import Watch
from benchmarks.throughput.workload import workload_of


def measure_cell(
    cell: Cell,
    hosts: Sequence[Host],
    problems: dict[str, str],
    calibration: Calibration,
    plan: Plan,
    watch: Watch,
    say: Callable[[str], None],
) -> CellResult:
    """Measure one cell with these rigs; ``problems`` says by name who cannot take part, and why."""
    begin = time.monotonic()
    workload = workload_of(cell, calibration)
    contestants = [Contestant(host, cell, workload, plan, problems.get(host.spec.name)) for host in hosts]
    for contestant in contestants:
        say(f"{cell.title}: starting {contestant.spec.name}")
        contestant.attempt(contestant.enter)
    ideal_rate = _ideal_rate(cell, contestants)
    for repeat in range(plan.repeats):
        for contestant in contestants:
            if repeat < (plan.repeats if contestant.stays else plan.crowd_repeats):
                say(f"{cell.title}: repeat {repeat + 1} of {plan.repeats}, {contestant.spec.name}")
                contestant.attempt(functools.partial(contestant.take_turn, ideal_rate, watch))
    for contestant in contestants:
        contestant.leave()
    results = [contestant.result() for contestant in contestants]
    if cell.waits:
        results.append(_waiting_ideal(cell, plan))
    return _cell_result(cell, workload.cost.turns, time.monotonic() - begin, results)


def needs_measured_ideal(cell: Cell) -> bool:
    """What waiting can do at best follows from the wait, and what a world could cost at least nobody knows."""
    return not cell.waits and cell.world is None


def _ideal_rate(cell: Cell, contestants: Sequence[Contestant]) -> float | None:
    if cell.waits:
        return cell.num_envs / (cell.step_microseconds / 1e6)
    ideal = next((contestant for contestant in contestants if contestant.spec is IDEAL), None)
    if ideal is None:
        return None
    if ideal.problem is not None:
        raise RigError(f"the ideal could not be measured: {ideal.problem}")
    return ideal.warm_rate


def _waiting_ideal(cell: Cell, plan: Plan) -> RigResult:
    """All environments wait at once, and nothing else takes any time."""
    rate = cell.num_envs / (cell.step_microseconds / 1e6)
    return RigResult(IDEAL.name, IDEAL.library, IDEAL.role, IDEAL.way, None, (rate,) * plan.repeats, 0)


def _cell_result(cell: Cell, turns: int, seconds: float, rigs: Sequence[RigResult]) -> CellResult:
    rigs = with_medians(rigs)
    in_lockstep, of_all = best_peer(rigs, "lockstep"), best_peer(rigs, "halves")
    ran = [rig for rig in rigs if rig.not_run is None]
    return CellResult(
        name=cell.name,
        title=cell.title,
        cell=cell,
        turns=turns,
        best_peer=in_lockstep.name if in_lockstep else None,
        best_peer_of_all=of_all.name if of_all else None,
        disturbed_share=sum(rig.disturbed for rig in ran) / max(1, sum(len(rig.rates) for rig in ran)),
        seconds=round(seconds, 1),
        # Who is not held up by the straggler steps the others more often: there is no bound to hold that against.
        rigs=with_ratios(rigs, ideal_of_halves=cell.spread != "straggler"),
    )
