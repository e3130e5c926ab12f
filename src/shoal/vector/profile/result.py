"""What a profile says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shoal.vector.plan import UNDECIDED, Plan
from shoal.vector.profile.advice import Advice, Situation, advice_for
from shoal.vector.profile.recorder import Kind, Track
from shoal.vector.profile.tracks import Pieces, Share
from shoal.vector.wording import duration

PERCENTILES = (50, 90, 99)
SLOW = 2.0
"""An environment whose median step is so many times longer than that of the others is a straggler."""
SHORT_SECONDS = 25e-6
"""More than by so much: whoever is first in a worker finds its caches cold."""
MOST_NAMED = 5
BAR = 30


NOTHING = "Nothing was recorded: step the environments inside the block, and close them after it."
WHILE_UNDECIDED = (
    'Nothing was recorded: backend="auto" was still finding out where to run the environments. What to do: take more steps, or '
    "name a backend."
)


@dataclass(frozen=True)
class EnvTimes:
    """How long one environment's steps take, in seconds."""

    env_index: int
    mean: float
    percentiles: dict[int, float]


@dataclass(frozen=True)
class Profile:
    """Where the time went."""

    plan: Plan
    num_envs: int
    num_workers: int
    """Those whose time is divided here; the caller itself, if there are no workers."""
    seconds: float
    """How long was recorded."""
    steps_per_second: float
    shares: dict[str, float]
    """Of all workers' time; together it is 1."""
    efficiency: float
    """What part of the ideal was reached: all processors doing nothing but environments' steps, as fast as these are."""
    step_percentiles: dict[int, float]
    """Of single environments' steps, in seconds."""
    envs: tuple[EnvTimes, ...]
    stragglers: tuple[int, ...]
    advice: tuple[Advice, ...]
    tracks: tuple[Track, ...] = field(repr=False)
    """The caller's, and every worker's."""

    def __str__(self) -> str:
        lines = [
            f"{self.num_envs} environments, backend {self.plan.backend!r}"
            + (f" with {self.num_workers} workers" if self.plan.backend != "serial" else "")
            + f": {self.steps_per_second:,.0f} steps per second, {self.efficiency:.0%} of the ideal",
            "",
        ]
        width = max(map(len, self.shares))
        for name, share in self.shares.items():
            bar = "█" * round(share * BAR)
            lines.append(f"  {name:<{width}}  {share:6.1%}  {bar}")
        if self.step_percentiles:
            named = ", ".join(f"{rank} % within {duration(value)}" for rank, value in self.step_percentiles.items())
            lines += ["", f"Steps of single environments: {named}."]
        if self.stragglers:
            lines.append(f"{self._slow_ones()}.")
        return "\n".join([*lines, "", *(str(advice) for advice in self.advice)])

    def _slow_ones(self) -> str:
        named = ", ".join(map(str, self.stragglers[:MOST_NAMED]))
        more = f" and {len(self.stragglers) - MOST_NAMED} more" if len(self.stragglers) > MOST_NAMED else ""
        whose = "environment" if len(self.stragglers) == 1 else "environments"
        return f"Much slower than the others: {whose} {named}{more}"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the timeline, as JSON can hold it."""
        fields = asdict(self)
        del fields["tracks"]
        return fields

    def save_picture(self, path: str | Path) -> None:
        """Draw the timeline of a few rounds, and the shares (needs matplotlib)."""
        from shoal.vector.profile.picture import draw

        draw(self, Path(path))

    def save_trace(self, path: str | Path) -> None:
        """Write the timeline as a trace that chrome://tracing and ui.perfetto.dev show."""
        from shoal.vector.profile.trace import write_trace

        write_trace(self.tracks, Path(path))


def profile_of(caller: Track, workers: Sequence[Track], plan: Plan, num_envs: int, cpus: int, steps: int) -> Profile:
    """What these tracks say."""
    if not (caller.kinds == Kind.WINDOW).any():
        empty = {share.value: 0.0 for share in Share}
        nothing = (Advice(WHILE_UNDECIDED if plan.reason == UNDECIDED else NOTHING, 1.0),)
        return Profile(plan, num_envs, len(workers) or 1, 0.0, 0.0, empty, 0.0, {}, (), (), nothing, (caller, *workers))
    pieces = Pieces(caller, workers)
    shares, seconds = pieces.shares(), pieces.seconds
    recorded = workers or [caller]
    rows = np.concatenate([track.step_rows for track in recorded])
    durations = np.concatenate([track.step_nanoseconds for track in recorded]) / 1e9
    envs = _env_times(rows, durations)
    waiting = float(np.mean([track.waiting_share for track in recorded]))
    situation = Situation(plan, num_envs, cpus, len(recorded), seconds, steps, shares, envs_mean(envs), waiting)
    return Profile(
        plan=plan,
        num_envs=num_envs,
        num_workers=len(recorded),
        seconds=seconds,
        steps_per_second=steps / seconds if seconds else 0.0,
        shares={share.value: value for share, value in shares.items()},
        efficiency=situation.efficiency,
        step_percentiles=_percentiles(durations),
        envs=envs,
        stragglers=_stragglers(envs),
        advice=advice_for(situation, _stragglers(envs)),
        tracks=(caller, *workers),
    )


def _env_times(rows: Any, durations: Any) -> tuple[EnvTimes, ...]:
    times = []
    for row in np.unique(rows).tolist():
        its = durations[rows == row]
        times.append(EnvTimes(row, float(its.mean()), _percentiles(its)))
    return tuple(times)


def envs_mean(envs: Sequence[EnvTimes]) -> float:
    """How long a step of an environment takes, on average over all of them."""
    return float(np.mean([each.mean for each in envs])) if envs else 0.0


def _percentiles(durations: Any) -> dict[int, float]:
    if not len(durations):
        return {}
    return dict(zip(PERCENTILES, np.percentile(durations, PERCENTILES).tolist(), strict=True))


def _stragglers(envs: Sequence[EnvTimes]) -> tuple[int, ...]:
    if len(envs) < 3:
        return ()
    medians = np.array([each.percentiles[50] for each in envs])
    slow = medians > SLOW * np.median(medians) + SHORT_SECONDS
    return tuple(each.env_index for each, is_slow in zip(envs, slow, strict=True) if is_slow)
