"""What would be quicker, and by how much: what was measured, put into the same small model by which ``"auto"`` decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shoal.vector.auto.forecast import Measured, forecasts
from shoal.vector.plan import Plan
from shoal.vector.profile.tracks import Share
from shoal.vector.wording import duration

WORTH_SAYING = 1.05
LARGE, LITTLE, MOST = 0.15, 0.02, 0.5
"""A share of the time that is worth a word, one that is not nothing, and one beside which others hardly matter."""


@dataclass(frozen=True)
class Advice:
    """Something to change, and how many times as fast it should become."""

    text: str
    gain: float

    def __str__(self) -> str:
        return f"{self.text} (about {self.gain:.2g} x)" if self.gain > 1 else self.text


class Remedy(NamedTuple):
    """What helps when too much time goes into something."""

    share: Share
    saves: float
    """Of that time, so much."""
    helps_anywhere: bool
    """Also where another way to run the environments should be tried first."""
    text: str


REMEDIES = (
    Remedy(
        Share.BARRIER, 1.0, True,
        "Workers wait {share:.0%} of the time for the slowest{who}. Take whoever is ready: envs.send() and envs.recv().",
    ),
    Remedy(
        Share.INFOS, 1.0, True,
        "Infos take {share:.0%} of the time. Return only what is used, or only when an episode ends.",
    ),
    Remedy(
        Share.COPYING, 0.5, False,
        "Copying takes {share:.0%} of the time. With copy=False observations are not copied again; smaller observations "
        "(uint8 for pixels, float32) help everywhere.",
    ),
    Remedy(
        Share.SIGNALLING, 0.5, False,
        "Signalling takes {share:.0%} of the time, however many environments there are: with twice as many, each costs half.",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Situation:
    """What was measured, as far as advice depends on it."""

    plan: Plan
    num_envs: int
    cpus: int
    num_workers: int
    seconds: float
    steps: int
    shares: Mapping[Share, float]
    env_seconds: float
    """A step of one environment."""
    waiting: float
    """The share of that in which nothing is computed."""

    @property
    def policy(self) -> float:
        """The share of time that is the caller's own."""
        return self.shares[Share.POLICY]

    @property
    def overlaps(self) -> bool:
        """Whether several environments of a worker are at work at the same time, on threads or as coroutines."""
        return self.plan.threads_per_worker > 1 or not self.env_seconds

    @property
    def efficiency(self) -> float:
        """What part of the ideal was reached."""
        if not self.round_seconds:
            return 0.0
        processors = min(self.cpus, self.num_envs)
        if not self.env_seconds:  # single steps could not be timed
            on_environments = self.shares[Share.ENVIRONMENT] / (1.0 - self.policy)
            return on_environments if self.overlaps else min(1.0, on_environments * self.num_workers / processors)
        computing = self.num_envs * self.env_seconds * (1 - self.waiting) / processors
        return min(1.0, max(computing, self.env_seconds) / self.round_seconds)

    @property
    def round_seconds(self) -> float:
        """A step of all environments, without the policy."""
        return self.seconds * (1 - self.policy) * self.num_envs / max(1, self.steps)


def advice_for(situation: Situation, stragglers: Sequence[int]) -> tuple[Advice, ...]:
    """What to change, the most useful first."""
    other = _other_backend(situation)
    found = list(other)
    if situation.policy > LARGE and situation.num_envs > 1 and situation.plan.backend != "serial":
        found.append(
            Advice(
                f"The policy takes {situation.policy:.0%} of the time, in which all environments wait. Let it work on one half "
                "while the other steps: envs.split(2).",
                1 / max(situation.policy, 1 - situation.policy),  # whichever is longer hides the other
            )
        )
    who = f" (mostly for environment {stragglers[0]})" if len(stragglers) == 1 else ""
    for remedy in REMEDIES:
        share = situation.shares[remedy.share]
        if share > LARGE and (remedy.helps_anywhere or not other):
            found.append(Advice(remedy.text.format(share=share, who=who), 1 / (1 - remedy.saves * share)))
    worth = sorted((each for each in found if each.gain > WORTH_SAYING), key=lambda each: -each.gain)
    if worth:
        return tuple(worth)
    if situation.policy > MOST:
        return (Advice(f"The policy takes {situation.policy:.0%} of the time: only a quicker one would help.", 1.0),)
    return (Advice("Nothing stands out that could be changed: what is left is the environments' own steps.", 1.0),)


def _other_backend(situation: Situation) -> Sequence[Advice]:
    """Another way to run these environments, if it should be quicker."""
    if situation.cpus < 2 or not situation.env_seconds or not situation.round_seconds or situation.overlaps:
        return ()
    seconds = situation.env_seconds * situation.num_envs
    measured = Measured(
        num_envs=situation.num_envs,
        seconds=seconds,
        computing_seconds=seconds * (1 - situation.waiting),
        waiting_seconds=seconds * situation.waiting,
        result_nbytes=0,
        infos=situation.num_envs if situation.shares[Share.INFOS] > LITTLE else 0.0,
    )
    ways = forecasts(measured, situation.cpus)
    best, used = ways[0], (situation.plan.backend, situation.plan.threads_per_worker)
    step = f"A step takes {duration(situation.env_seconds)}"
    why = "too little for workers"
    if (best.backend, best.threads_per_worker) == used and best.backend != "serial":
        # Workers should be quicker, and perhaps are not: other programs compute, too. What a loop takes is surer.
        best = next(way for way in ways if way.backend == "serial")
        why = f"a loop over all {duration(best.seconds)}, and workers took {duration(situation.round_seconds)}"
    remaining = best.seconds / situation.round_seconds  # of what is not the policy
    gain = 1 / ((1 - situation.policy) * remaining + situation.policy)
    if (best.backend, best.threads_per_worker) == used or gain < WORTH_SAYING:
        return ()
    if best.backend == "serial":
        return (Advice(f'{step}, {why}: backend="serial".', gain),)
    if best.threads_per_worker > 1:
        return (
            Advice(
                f'{step}, {situation.waiting:.0%} of it waiting: backend="shm", threads_per_worker='
                f"{best.threads_per_worker}.",
                gain,
            ),
        )
    return (Advice(f'{step}, enough for {best.num_workers} worker processes: backend="shm".', gain),)
