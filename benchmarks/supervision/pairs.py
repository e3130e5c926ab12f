"""One cell on one backend: the same rollout under two policies, turn by turn.

    start both · warm up · raise, restore · restore, raise · raise, restore · … · close both
    start both · …

Each pair is taken back to back, and each turn on a steady machine. Both are started several times, because
two processes can differ for as long as they live: in where their memory lies, and whom they share a cache with.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.supervision.cells import PricedCell
from benchmarks.throughput.calibration import Calibration
from benchmarks.throughput.contestant import SETTLING_SECONDS, rounds_lasting
from benchmarks.throughput.host import Host
from benchmarks.throughput.ratios import Ratio, paired_ratio
from benchmarks.throughput.rigs.catalogue import RigSpec
from benchmarks.throughput.watch import Watch
from benchmarks.throughput.work_env import EPISODE_LENGTH
from benchmarks.throughput.workload import workload_of

POLICIES = ("raise", "restore")
_RIGS = {"lockstep": "LockstepRig", "first-ready": "FirstReadyRig"}


@dataclass(frozen=True)
class Plan:
    """How often, and how long each time."""

    starts: int
    pairs: int
    """In each start."""
    turn_seconds: float
    patience_seconds: float
    """How long to try for a turn on a steady machine."""
    warm_up_seconds: float
    """At least; and until an episode has ended and some steps more, because this is when a journal is first made shorter."""


@dataclass
class PairResult:
    """What was measured; rates are environment steps per second."""

    cell: str
    title: str
    backend: str
    target: float | None
    rates: dict[str, list[float]]
    """By policy; those with the same index belong together."""
    disturbed_share: float
    """Of the turns, how many were taken on an unsteady machine."""
    ratio: Ratio
    """Of the times of a step, restore to raise: the median of the pairs."""
    overall: float
    """The same of all pairs together, in which what happens only from time to time has its share."""


def measure_pairs(
    priced: PricedCell,
    backend: str,
    plan: Plan,
    calibration: Calibration,
    watch: Watch,
    logs: Path,
    say: Callable[[str], None],
) -> PairResult:
    cell = priced.cell
    workload = workload_of(cell, calibration)
    rates: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    disturbed = 0
    for start in range(plan.starts):
        hosts = {policy: Host(_spec(priced, backend, policy), logs) for policy in POLICIES}
        try:
            for policy, host in hosts.items():
                say(f"{priced.title}, {backend}: start {start + 1} of {plan.starts}, warming up {policy}")
                host.start(workload)
                rate = _warm_up(host, cell.num_envs, plan)
                host.freeze()
            rounds = rounds_lasting(plan.turn_seconds, rate, cell.num_envs)
            settling = rounds_lasting(SETTLING_SECONDS, rate, cell.num_envs)
            for pair in range(plan.pairs):
                say(f"{priced.title}, {backend}: start {start + 1} of {plan.starts}, pair {pair + 1} of {plan.pairs}")
                for policy in POLICIES if pair % 2 == 0 else reversed(POLICIES):
                    measure = functools.partial(hosts[policy].measure_thawed, settling, rounds)
                    turn = watch.steady_rate(measure, plan.patience_seconds)
                    rates[policy].append(turn.value)
                    disturbed += not turn.steady
            for host in hosts.values():
                host.close()
        finally:
            for host in hosts.values():
                host.end()
    # A rate is a step's time the other way up.
    ratio = paired_ratio(rates["raise"], rates["restore"])
    overall = statistics.harmonic_mean(rates["raise"]) / statistics.harmonic_mean(rates["restore"])
    share = disturbed / (plan.starts * plan.pairs * len(POLICIES))
    return PairResult(priced.name, priced.title, backend, priced.target, rates, share, ratio, overall)


def _warm_up(host: Host, num_envs: int, plan: Plan) -> float:
    """Until the history of the environments is kept as it will always be; returns the rate."""
    rounds = EPISODE_LENGTH // 5
    rate = host.measure(rounds)
    todo = max(rounds_lasting(plan.warm_up_seconds, rate, num_envs), EPISODE_LENGTH + rounds) - rounds
    return host.measure(todo)


def _spec(priced: PricedCell, backend: str, policy: str) -> RigSpec:
    factory = f"benchmarks.supervision.rigs:{_RIGS[priced.way]}"
    return RigSpec(f"{backend}-{policy}", "Shoal", "shoal", factory, (backend, policy), "processes", role="shoal")
