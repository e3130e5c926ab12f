"""Who takes part: three ways to have the game, each on the backends on which it is measured."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import shoal
from benchmarks.cage2.stand_in import Costs, StandIn

Game = Literal["stand-in", "world, one by one", "world"]
"""In Python; compiled, but every game alone; compiled, and all games of a process in one call."""
Backend = Literal["pipes", "shm", "serial"]

BACKENDS: tuple[Backend, ...] = ("pipes", "shm", "serial")
EPISODE_STEPS = 100
EPISODE_ROUNDS = EPISODE_STEPS + 1
"""The round after the last step begins the next episode."""
_SCATTER = 0.618034
"""Multiples of the golden ratio, without their whole part, lie evenly however many there are, and neighbours lie apart."""


@dataclass(frozen=True)
class Contestant:
    """A game on a backend."""

    game: Game
    backend: Backend

    def open(self, num_envs: int, costs: Costs, max_steps: int | None) -> shoal.ParallelEnv:
        """So many games, before their first reset."""
        if self.game == "stand-in":
            stand_ins = [
                functools.partial(StandIn, costs, max_steps, int(index * _SCATTER % 1 * (max_steps or 0)))
                for index in range(num_envs)
            ]
            return shoal.ParallelEnv(stand_ins, backend=self.backend)
        if self.game == "world":
            return shoal.make("shoal/Cage2-v0", num_envs, red="B_line", max_steps=max_steps, backend=self.backend)
        from shoal.envs.cage2 import Cage2Env

        # Games are put together where all come from one factory; these come from one each.
        singles = [functools.partial(Cage2Env, red="B_line", max_steps=max_steps) for _ in range(num_envs)]
        return shoal.ParallelEnv(singles, backend=self.backend)


CONTESTANTS = (
    *(Contestant("stand-in", backend) for backend in BACKENDS),
    Contestant("world, one by one", "serial"),
    *(Contestant("world", backend) for backend in BACKENDS),
)
