"""What is decided about a rollout before it begins: its task, its seed and all its random numbers.

They follow from the run's seed and the number of the rollout. So they are the same whichever environment plays it, next to
whichever others, and however often its worker dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from shoal.meta.actions import Choices, Numbers
from shoal.vector.layout import Array


class Purpose(IntEnum):
    """What random numbers are for. Each purpose has its own."""

    ROLLOUTS = 0
    EVALUATION = 1
    BATCHES = 2


class Plan(NamedTuple):
    """A rollout to be."""

    number: int
    task: Any
    seed: int
    """Of the environment."""
    draws: Array
    """Random numbers for an agent's actions, or the actions themselves, where these are random: a row for each step."""


def generator(seed: int, purpose: Purpose, number: int = 0) -> np.random.Generator:
    """Random numbers for this alone."""
    return np.random.default_rng([seed, purpose, number])


def plan_of(
    purpose: Purpose,
    seed: int,
    number: int,
    tasks: Sequence[Any],
    most_steps: int,
    actions: Choices | Numbers,
    *,
    random_actions: bool = False,
) -> Plan:
    """A rollout. Its task is any of these; if there are none, the environment makes one up."""
    random = generator(seed, purpose, number)
    env_seed = int(random.integers(2**31))
    task = tasks[int(random.integers(len(tasks)))] if len(tasks) else None
    draw = actions.random if random_actions else actions.noise
    return Plan(number, task, env_seed, draw(random, most_steps))
