"""Evaluation: always on a single environment, with the most likely actions, on seeds of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from shoal.ppo.acting import Policy
from shoal.ppo.halves import ALL
from shoal.ppo.heads import Head
from shoal.ppo.masking import mask_of
from shoal.ppo.normalising import ObservationScale
from shoal.ppo.observing import Encoder

FIRST_SEED = 1_000_000_007
"""Far from the seeds of training."""


@dataclass(frozen=True)
class Evaluation:
    """What some episodes came to."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Of the returns."""
        return float(np.mean(self.returns)) if self.returns else math.nan

    @property
    def error(self) -> float:
        """Half of the 95 % confidence interval of the mean; infinite for a single episode."""
        if len(self.returns) < 2:
            return math.inf
        return float(_t_quantile(len(self.returns) - 1) * np.std(self.returns, ddof=1) / math.sqrt(len(self.returns)))

    def metrics(self) -> dict[str, float]:
        """For the metrics file."""
        return {"charts/eval_return": self.mean}

    def __str__(self) -> str:
        if not self.returns:
            return "no episode was completed"
        episodes = f"{len(self.returns)} episodes, mean length {np.mean(self.lengths):.0f}"
        return f"{self.mean:.2f} ± {self.error:.2f} (95 %, {episodes})"


def evaluate(
    env: gymnasium.Env[Any, Any],
    policy: Policy,
    encoder: Encoder,
    head: Head,
    scale: ObservationScale | None,
    episodes: int,
    seed: int,
    max_steps: int,
    look: Callable[[], None] | None = None,
    is_asked_to_stop: Callable[[], bool] = lambda: False,
) -> Evaluation:
    """Play so many episodes, each with a seed of its own.

    Args:
        max_steps: an episode that takes longer is cut off, because some policies never come to an end.
        look: called whenever there is something new to be seen.
        is_asked_to_stop: asked at every step; what has been played so far counts, but for an episode that is not over.
    """
    returns: list[float] = []
    lengths: list[int] = []
    for number in range(episodes):
        observation, info = env.reset(seed=FIRST_SEED + seed + number)
        policy.begin(np.ones(1, np.bool_), ALL)
        if look is not None:
            look()
        total, length, has_ended = 0.0, 0, False
        while not has_ended:
            seen = encoder(_batch(observation))
            outputs = policy.outputs(seen if scale is None else scale(seen), ALL)
            action = head.for_envs(head.best(outputs, mask_of(info, head)))[0]
            observation, reward, terminated, truncated, info = env.step(action)
            total, length = total + float(reward), length + 1
            has_ended = terminated or truncated or length >= max_steps
            if is_asked_to_stop():
                return Evaluation(tuple(returns), tuple(lengths))
            if look is not None:
                look()
        returns.append(total)
        lengths.append(length)
    return Evaluation(tuple(returns), tuple(lengths))


def _batch(observation: Any) -> Any:
    """A batch of one."""
    if isinstance(observation, dict):
        return {key: _batch(value) for key, value in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_batch(value) for value in observation)
    return np.asarray(observation)[None]


def _t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's distribution, good to a thousandth from two degrees of freedom on."""
    exact = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571}
    if freedom in exact:
        return exact[freedom]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
