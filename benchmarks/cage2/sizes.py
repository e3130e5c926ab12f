"""Few games and many: steps per second of every contestant, with the resets of finished episodes."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.cage2.contestants import CONTESTANTS, EPISODE_ROUNDS, EPISODE_STEPS, Contestant
from benchmarks.cage2.plan import ALL_SIZES, FEW, Plan
from benchmarks.cage2.playing import Player
from benchmarks.cage2.stand_in import Costs
from benchmarks.cage2.turns import Rates, take_turns
from benchmarks.throughput.contestant import rounds_lasting
from benchmarks.throughput.ratios import Ratio, paired_ratio
from benchmarks.throughput.watch import Watch

WORLD = Contestant("world", "serial")
TARGET = 1.3
"""A step of one of many should take at most so many times as long as a step of one of few."""


@dataclass
class SizeRecord:
    """One contestant with so many games."""

    contestant: Contestant
    num_envs: int
    rates: Rates | None
    """None if it was not run."""


@dataclass
class GrowthRecord:
    """What a compiled step costs on one core, among few and among many."""

    few: SizeRecord
    many: SizeRecord
    times_as_long: Ratio


def measure_sizes(plan: Plan, costs: Costs, watch: Watch, say: Callable[[str], None]) -> list[SizeRecord]:
    records = []
    for num_envs in ALL_SIZES:
        taking_part = [each for each in CONTESTANTS if num_envs in _sizes(each, plan)]
        say(f"starting {num_envs:,} games")
        measured = dict(zip(taking_part, _measure(taking_part, num_envs, plan, costs, watch, say), strict=True))
        records += [SizeRecord(each, num_envs, measured.get(each)) for each in CONTESTANTS]
    return records


def measure_growth(plan: Plan, costs: Costs, watch: Watch, say: Callable[[str], None]) -> GrowthRecord:
    numbers = (FEW, plan.many)
    say(f"starting {FEW:,} and {plan.many:,} games on one core")
    with contextlib.ExitStack() as stack:
        players = [_open(stack, WORLD, num_envs, costs) for num_envs in numbers]
        say(f"{FEW:,} and {plan.many:,} games on one core")
        measures = [functools.partial(each.settled_rate, _rounds(WORLD, each, plan)) for each in players]
        found = take_turns(measures, plan.repeats, watch, plan.patience_seconds)
    few, many = (SizeRecord(WORLD, num_envs, rates) for num_envs, rates in zip(numbers, found, strict=True))
    # A rate is a step's time the other way up.
    return GrowthRecord(few, many, paired_ratio(found[0].values, found[1].values))


def _sizes(contestant: Contestant, plan: Plan) -> tuple[int, ...]:
    if contestant.game == "stand-in":
        return plan.stand_in_sizes
    return plan.world_sizes if contestant.game == "world" else plan.single_sizes


def _measure(
    contestants: list[Contestant], num_envs: int, plan: Plan, costs: Costs, watch: Watch, say: Callable[[str], None]
) -> list[Rates]:
    with contextlib.ExitStack() as stack:
        players = [_open(stack, each, num_envs, costs) for each in contestants]
        say(f"{num_envs:,} games")
        measures = [
            functools.partial(player.settled_rate, _rounds(each, player, plan))
            for each, player in zip(contestants, players, strict=True)
        ]
        return take_turns(measures, plan.repeats, watch, plan.patience_seconds)


def _open(stack: contextlib.ExitStack, contestant: Contestant, num_envs: int, costs: Costs) -> Player:
    return Player(stack.enter_context(contestant.open(num_envs, costs, EPISODE_STEPS)))


def _rounds(contestant: Contestant, player: Player, plan: Plan) -> int:
    """Of a turn."""
    rate, num_envs = player.usual_rate, player.envs.num_envs
    if contestant.game == "stand-in":
        return rounds_lasting(plan.stand_in_seconds, rate, num_envs)
    # All games of a world begin together, and what a step costs depends on how far they are: only whole episodes compare.
    return EPISODE_ROUNDS * math.ceil(rounds_lasting(plan.world_seconds, rate, num_envs) / EPISODE_ROUNDS)
