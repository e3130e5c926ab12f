"""Generalised advantage estimation, for rollouts in which episodes end, are cut off and begin."""

from __future__ import annotations

import numpy as np

from shoal.vector.layout import Array


def advantages_of(
    rewards: Array, values: Array, terminated: Array, truncated: Array, gamma: float, gae_lambda: float
) -> Array:
    """How much better than expected every step was.

    Args:
        rewards: (steps, environments).
        values: of the observations before every step and after the last: (steps + 1, environments). The observation after a
            step that ends an episode is its last one, so that an episode that was cut off is worth what would have followed.
        terminated: whether nothing follows a step.
        truncated: whether something would have followed, in the same episode.
        gamma: what a reward is worth a step later.
        gae_lambda: how far to look ahead.
    """
    goes_on = 1.0 - terminated
    surprises = rewards + gamma * goes_on * values[1:] - values[:-1]
    # Beyond the end of an episode, other steps say nothing about this one.
    decay = gamma * gae_lambda * (goes_on - truncated * goes_on)
    advantages = np.zeros_like(surprises)
    following = np.zeros_like(surprises[0])
    for step in range(len(rewards) - 1, -1, -1):
        following = surprises[step] + decay[step] * following
        advantages[step] = following
    return advantages
