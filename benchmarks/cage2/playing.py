"""Games that are played with one seeded random policy."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import numpy as np

import shoal
from benchmarks.cage2.stand_in import NUM_ACTIONS

Ask = Callable[[shoal.ParallelEnv], object]
"""What is asked after every step."""

_BATCHES = 64
"""Of random actions, drawn beforehand; then they repeat."""
_TRIAL_SECONDS = 0.05
"""To find out how quick the games are."""
_SETTLING_SECONDS = 0.01
"""Until workers that have had no turn for a while are awake."""


class Player:
    """Resets the games, and plays as many rounds as it is told."""

    def __init__(self, envs: shoal.ParallelEnv) -> None:
        self.envs = envs
        random = np.random.default_rng(0)
        self._actions = itertools.cycle(random.integers(NUM_ACTIONS, size=(_BATCHES, envs.num_envs)))
        envs.reset(seed=0)
        self.play(1)  # loads what is compiled
        self.usual_rate = self.rate(1)
        # One round of many slow games says enough; of quick ones there is time for more.
        if more := int(_TRIAL_SECONDS * self.usual_rate / envs.num_envs):
            self.usual_rate = self.rate(more)

    def play(self, rounds: int, ask: Ask | None = None) -> None:
        step, envs = self.envs.step, self.envs
        for actions in itertools.islice(self._actions, rounds):
            step(actions)
            if ask is not None:
                ask(envs)

    def rate(self, rounds: int, ask: Ask | None = None) -> float:
        """Environment steps per second."""
        begin = time.perf_counter()
        self.play(rounds, ask)
        return rounds * self.envs.num_envs / (time.perf_counter() - begin)

    def settled_rate(self, rounds: int, ask: Ask | None = None) -> float:
        """The same after a few rounds that do not count, if a round is short."""
        self.play(int(_SETTLING_SECONDS * self.usual_rate / self.envs.num_envs), ask)
        return self.rate(rounds, ask)
