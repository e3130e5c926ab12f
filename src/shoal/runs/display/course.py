"""What the reports of a training run add up to, and their numbers as people write them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

from shoal.runs.report import FULL_MEAN, UNKNOWN, Goal, Report

TREND_LENGTH = 40

LOSS_LABELS = {
    "policy_loss": "policy",
    "value_loss": "value",
    "entropy": "entropy",
    "approx_kl": "KL",
    "clipfrac": "clipped",
    "explained_variance": "explained",
}


class Course:
    """The run so far."""

    def __init__(self) -> None:
        self.last: Report | None = None
        self.trend: deque[float] = deque(maxlen=TREND_LENGTH)
        """The mean returns of the last updates."""
        self._first: Report | None = None
        self._best: tuple[bool, float] | None = None

    def add(self, report: Report) -> None:
        """Take note of one more report."""
        self._first = self._first or report
        self.last = report
        if report.mean_return is None:
            return
        self.trend.append(report.mean_return)
        if not math.isnan(report.mean_return):
            # A lucky first episode is no record: a mean of 100 episodes beats any mean of fewer.
            candidate = (report.episodes >= FULL_MEAN, report.mean_return)
            self._best = candidate if self._best is None else max(self._best, candidate)

    @property
    def best_mean_return(self) -> float | None:
        """The best that was reported; of 100 episodes, as soon as there are so many."""
        return None if self._best is None else self._best[1]

    @property
    def steps_per_second(self) -> float | None:
        """Since training began or was resumed."""
        if self._first is None or self.last is None or self.last.seconds <= 0:
            return None
        # Steps count from the very beginning and seconds from where it was resumed, so what came before is taken off.
        before = max(0.0, self._first.steps - self._first.steps_per_second * self._first.seconds)
        return (self.last.steps - before) / self.last.seconds

    def summary(self, goal: Goal) -> Iterator[tuple[str, str]]:
        """What to say at the end, as names and values."""
        if self.last is not None:
            rate = self.steps_per_second
            yield "Steps", f"{self.last.steps:,}"
            yield f"{self.last.counted}s", f"{self.last.episodes:,}"
            yield "Time", clock(self.last.seconds)
            yield "Steps per second", UNKNOWN if rate is None else f"{rate:,.0f}"
            yield "Final mean return", amount(self.last.mean_return)
            yield "Best mean return", amount(self.best_mean_return)
            yield "Restarts", f"{self.last.restarts:,}"
        if goal.folder is not None:
            yield "Folder", goal.folder


def progress(goal: Goal, report: Report) -> tuple[float | None, str]:
    """How much of the goal is done, from 0 to 1, and that in words; ``None`` for a goal without an end."""
    ways = [
        (done / total, f"{name} {done:,} of {total:,}")
        for name, done, total in (
            (report.counted, report.episodes, goal.total_episodes),
            ("Step", report.steps, goal.total_steps),
        )
        if total
    ]
    if not ways:
        return None, f"{report.counted} {report.episodes:,}, step {report.steps:,}"
    share, words = max(ways)  # training ends with whichever comes first
    return min(share, 1.0), words


def time_shares(report: Report) -> list[tuple[str, float]]:
    """Where the time went: names and shares that add up to 1; empty if it is not known."""
    known = {name: max(share, 0.0) for name, share in report.shares.items() if math.isfinite(share)}
    if not known:
        return []
    known["other"] = known.pop("other", 0.0) + max(0.0, 1.0 - sum(known.values()))
    total = sum(known.values())
    return [(name, share / total) for name, share in known.items()]


def loss_label(name: str) -> str:
    """A short name for a loss."""
    return LOSS_LABELS.get(name, name.removesuffix("_loss").replace("_", " "))


def loss_value(value: float) -> str:
    """At most nine characters, whatever it is."""
    size = abs(value)
    if value == 0 or not math.isfinite(value) or 1e-3 <= size < 999:
        return f"{value:.4f}"
    return f"{value:.2e}" if 1e-99 <= size < 9e99 else f"{value:.1e}"


def amount(value: float | None) -> str:
    """A return: two decimals, as long as these mean anything."""
    if value is None:
        return UNKNOWN
    return f"{value:.3e}" if math.isfinite(value) and abs(value) >= 1e7 else f"{value:,.2f}"


def clock(seconds: float | None) -> str:
    """Hours, minutes and seconds, and days if there are any."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}d {hours:02}:{minutes:02}:{rest:02}" if days else f"{hours}:{minutes:02}:{rest:02}"


def showable(text: str, encoding: str) -> str:
    """The text with what the encoding lacks written as escapes: a name must not end a training run."""
    return text.encode(encoding, "backslashreplace").decode(encoding)
