"""What meta-learning says of itself, after every iteration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from shoal.runs.report import Report, Row
from shoal.vector.layout import Array

MUCH = 0.5
"""Of the time of collecting. What takes more is what limits it."""


@dataclass(frozen=True)
class Evaluation:
    """What an agent is worth on some tasks; none of them, if it was asked to stop before the first was over."""

    returns_per_episode: Array
    """(tasks, episodes of a task)"""
    success_rate: float | None
    """The share of tasks whose goal was reached, where tasks have one."""
    total_steps: Array
    """Of each task."""

    @property
    def mean(self) -> float:
        """The return of a task, over all its episodes."""
        return float(self.returns_per_episode.sum(axis=1).mean()) if len(self.total_steps) else math.nan

    @property
    def episode_returns(self) -> list[float]:
        """The mean return of the first episode, of the second, ..."""
        return [float(mean) for mean in self.returns_per_episode.mean(axis=0)]

    def metrics(self) -> dict[str, float]:
        """For the metrics file."""
        return {"charts/eval_return": self.mean, **_metrics_of(self.episode_returns, self.success_rate, "eval")}

    def __str__(self) -> str:
        if not len(self.total_steps):
            return "no task was completed"
        success = _in_percent(self.success_rate)
        return f"{self.mean:.2f} ({len(self.total_steps)} tasks, {_in_words(self.episode_returns)}{success})"


@dataclass(frozen=True, kw_only=True)
class MetaReport(Report):
    """How far meta-learning is. What is counted as an update is an iteration, and as an episode a rollout: a whole task."""

    curve: ClassVar[str] = "Mean return"
    counted: ClassVar[str] = "Rollout"
    turn: ClassVar[str] = "Iteration"

    gradient_steps: int
    episode_returns: list[float]
    """Of the rollouts of this iteration: the mean of the first episode, of the second, ..."""
    success_rate: float | None
    """The share of these rollouts whose goal was reached, where tasks have one."""

    def rows(self) -> Sequence[Row]:
        """What else the panel shows."""
        rows = [Row("By episode", self.episode_returns)] if len(self.episode_returns) > 1 else []
        reached = "" if self.success_rate is None else f"goal reached in {100 * self.success_rate:.0f} %"
        return [*rows, Row("Rollouts", (self.episodes,), reached)]

    def lines(self) -> Sequence[str]:
        """What else is said in a log."""
        words = _in_words(self.episode_returns)
        return [f"Return of a task: {self.mean_return:.2f}, {words}{_in_percent(self.success_rate)}"]

    def metrics(self) -> dict[str, float]:
        """The same under the names that the field knows."""
        more = _metrics_of(self.episode_returns, self.success_rate, "train")
        return {**super().metrics(), "charts/gradient_steps": float(self.gradient_steps), **more}

    def __str__(self) -> str:
        """As a line of a log."""
        counts = f"{self.steps:,} steps, {self.episodes:,} rollouts, {self.steps_per_second:,.0f} steps/s"
        text = f"{counts}: {self.lines()[0]}"
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


def _in_percent(success_rate: float | None) -> str:
    return "" if success_rate is None else f", goal reached in {100 * success_rate:.0f} %"
