"""A thousand games of CAGE 2 at once: how long do simple ways to defend hold out?

python examples/06_network_defence.py
"""

from __future__ import annotations

import time

import numpy as np

import shoal
from shoal.cyber import removing, restoring, sleeping, true_states

NUM_GAMES, NUM_STEPS = 1000, 50

for red in ("B_line", "Meander"):
    for policy in (sleeping, removing, restoring):
        with shoal.make("shoal/Cage2-v0", NUM_GAMES, red=red, max_steps=None, backend="serial") as envs:
            observations, _ = envs.reset(seed=0)
            returns = np.zeros(NUM_GAMES)
            begin = time.perf_counter()
            for _ in range(NUM_STEPS):
                observations, rewards, *_ = envs.step(policy(observations))
                returns += rewards
            seconds = time.perf_counter() - begin
            lost = (true_states(envs)["access"] == 2).sum(axis=1).mean() - 1  # without User0
        error = returns.std() / np.sqrt(NUM_GAMES)
        print(
            f"{red:8} against {policy.__name__:9}: return {returns.mean():7.1f} +- {error:.1f}, {lost:.1f} hosts lost, "
            f"{NUM_GAMES * NUM_STEPS / seconds:,.0f} steps per second"
        )
