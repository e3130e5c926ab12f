"""The setting of the research code that Shoal grew out of: few steps of 20 and of 200 games, and what it reported.

Episodes do not end. Every contestant is measured twice: as it is, and with the true state of every game asked for after every
step. Those that run in worker processes are then looked at with the profiler, for about a second.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import shoal
from benchmarks.cage2.contestants import BACKENDS, Contestant, Game
from benchmarks.cage2.plan import Plan
from benchmarks.cage2.playing import Ask, Player
from benchmarks.cage2.stand_in import Costs
from benchmarks.cage2.turns import Rates, take_turns
from benchmarks.throughput.contestant import rounds_lasting
from benchmarks.throughput.watch import Watch
from shoal.cyber import true_states

SIZES = (20, 200)
GAMES: tuple[Game, ...] = ("stand-in", "world")
REPORTED = {
    (20, "pipes"): 3391,
    (20, "shm"): 2766,
    (20, "serial"): 434,
    (200, "pipes"): 180,
    (200, "shm"): 3052,
    (200, "serial"): 393,
}
"""Transitions per second, on a machine that is not described. Whether true states were asked for is not said."""
REPORTED_SEQUENTIAL = (200, 270)
"""One after the other, while training."""


@dataclass
class OriginalRecord:
    """One contestant with so many games."""

    contestant: Contestant
    num_envs: int
    asks: bool
    """Whether for all true states after every step."""
    rates: Rates
    shares: dict[str, float] | None
    """What the time was spent on, by the profiler; None where there are no workers."""


def measure_original(plan: Plan, costs: Costs, watch: Watch, say: Callable[[str], None]) -> list[OriginalRecord]:
    records = []
    for num_envs in SIZES:
        for game in GAMES:
            say(f"setting of the original: starting {num_envs} games, {game}")
            with contextlib.ExitStack() as stack:
                contestants = [Contestant(game, backend) for backend in BACKENDS]
                players = [Player(stack.enter_context(each.open(num_envs, costs, None))) for each in contestants]
                records += _measure(contestants, players, plan, watch, say)
    return records


def _measure(
    contestants: list[Contestant], players: list[Player], plan: Plan, watch: Watch, say: Callable[[str], None]
) -> list[OriginalRecord]:
    num_envs = players[0].envs.num_envs
    runs = [
        (each, player, ask, _rounds(each, player, plan))
        for each, player in zip(contestants, players, strict=True)
        for ask in (None, _asking(each.game))
    ]
    say(f"setting of the original: {num_envs} games, {contestants[0].game}")
    measures = [functools.partial(player.settled_rate, rounds, ask) for _, player, ask, rounds in runs]
    found = take_turns(measures, plan.repeats, watch, plan.patience_seconds)
    say(f"setting of the original: profiling {num_envs} games, {contestants[0].game}")
    return [
        OriginalRecord(each, num_envs, ask is not None, rates, _shares(each, player, ask, plan))
        for (each, player, ask, _), rates in zip(runs, found, strict=True)
    ]


def _shares(contestant: Contestant, player: Player, ask: Ask | None, plan: Plan) -> dict[str, float] | None:
    if contestant.backend == "serial":
        return None
    rounds = rounds_lasting(plan.profile_seconds, player.usual_rate, player.envs.num_envs)
    with player.envs.profile() as profile:
        player.play(rounds, ask)
    return profile.result.shares


def _rounds(contestant: Contestant, player: Player, plan: Plan) -> int:
    """Of a turn: of the stand-in, all turns together have the steps of the original; of the world every turn has, or more."""
    if contestant.game == "stand-in":
        return math.ceil(plan.original_steps / plan.repeats)
    rounds = rounds_lasting(plan.world_seconds, player.usual_rate, player.envs.num_envs)
    return plan.original_steps * math.ceil(rounds / plan.original_steps)


def _asking(game: Game) -> Ask:
    return _ask_stand_ins if game == "stand-in" else true_states


def _ask_stand_ins(envs: shoal.ParallelEnv) -> object:
    return envs.get_attr("true_state")
