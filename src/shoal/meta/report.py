"""What meta-learning says of itself, after every iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.vector.layout import Array

MUCH = 0.5
"""Of the time of collecting. What takes more is what limits it."""


@dataclass(frozen=True)
class Evaluation:
    """What an agent is worth on some tasks."""

    returns_per_episode: Array
    """(tasks, episodes of a task)"""
    success_rate: float | None
    """The share of tasks whose goal was reached, where tasks have one."""
    total_steps: Array
    """Of each task."""

    @property
    def mean(self) -> float:
        """The return of a task, over all its episodes."""
        return float(self.returns_per_episode.sum(axis=1).mean())

    @property
    def episode_returns(self) -> list[float]:
        """The mean return of the first episode, of the second, ..."""
        return [float(mean) for mean in self.returns_per_episode.mean(axis=0)]

    def metrics(self) -> dict[str, float]:
        """For the metrics file."""
        return _metrics_of(self.episode_returns, self.success_rate, "eval")

    def __str__(self) -> str:
        success = "" if self.success_rate is None else f", goal reached in {100 * self.success_rate:.0f} %"
        return f"{len(self.total_steps)} tasks: {self.mean:.2f} in all, {_in_words(self.episode_returns)}{success}"


@dataclass(frozen=True, kw_only=True)
class MetaReport:
    """How far meta-learning is."""

    iterations: int
    updates: int
    """Steps of gradients."""
    steps: int
    """Of single environments, since training began (also before it was resumed)."""
    rollouts: int
    """Tasks that were played."""
    episode_returns: list[float]
    """Of the rollouts of this iteration: the mean of the first episode, of the second, ..."""
    success_rate: float | None
    """The share of these rollouts whose goal was reached, where tasks have one."""
    steps_per_second: float
    """Of this iteration, learning included."""
    seconds: float
    """Since training began or was resumed."""
    losses: Mapping[str, float] = field(default_factory=dict)
    """``critic_loss``, ``actor_loss``, ``entropy``, ``alpha``, ``value``."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Of the time: ``environments``, ``policy``, ``update``; the rest is ``other``."""
    advice: str = ""
    """What limits collecting, if it is not the environments."""

    @property
    def mean_return(self) -> float:
        """Of a task, over all its episodes."""
        return sum(self.episode_returns)

    def metrics(self) -> dict[str, float]:
        """The same under the names that the field knows."""
        return {
            "global_step": self.steps,
            "charts/SPS": self.steps_per_second,
            "charts/iterations": self.iterations,
            "charts/rollouts": self.rollouts,
            "charts/updates": self.updates,
            **_metrics_of(self.episode_returns, self.success_rate, "train"),
            **{f"losses/{name}": value for name, value in self.losses.items()},
            **{f"time/{name}": value for name, value in self.shares.items()},
        }

    def __str__(self) -> str:
        success = "" if self.success_rate is None else f", goal reached in {100 * self.success_rate:.0f} %"
        text = (
            f"{self.steps:,} steps, {self.rollouts:,} rollouts, {self.steps_per_second:,.0f} steps/s: "
            f"{self.mean_return:.2f} a task, {_in_words(self.episode_returns)}{success}"
        )
        return f"{text}; {self.advice}" if self.advice else text


def advice_on(environments: float, policy: float, num_parallel: int) -> str:
    """What limits collecting, if it is the policy. Both are seconds."""
    share = policy / max(environments + policy, 1e-9)
    if share <= MUCH:
        return ""
    more = "more environments at once" if num_parallel > 1 else "several environments at once"
    return (
        f"the policy takes {100 * share:.0f} % of the time of collecting, so faster environments would not help much: "
        f"{more} (env.num_parallel_workers) share a call of the policy, and a smaller network is a quicker one"
    )


def _metrics_of(episode_returns: list[float], success_rate: float | None, where: str) -> dict[str, float]:
    """Under the names of pomdp-baselines."""
    values = {f"metrics/return_{where}_episode_{number}": one for number, one in enumerate(episode_returns, start=1)}
    values[f"metrics/return_{where}_total"] = sum(episode_returns)
    if success_rate is not None:
        values[f"metrics/success_rate_{where}"] = success_rate
    return values


def _in_words(episode_returns: list[float]) -> str:
    return "by episode " + ", ".join(f"{one:.2f}" for one in episode_returns)
