"""Environments all together, or in two halves, of which one can step while the policy acts for the other."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from shoal.vector.parallel_env import ParallelEnv
from shoal.vector.plan import UNDECIDED, needs_processes

ALL = slice(None)


class Stepping(Protocol):
    """Something that steps."""

    def step_async(self, actions: Any) -> None:
        """Begin."""

    def step_wait(self) -> Any:
        """Wait for it."""


class Half(NamedTuple):
    """Some environments, and which rows are theirs."""

    envs: Stepping
    rows: slice

    def step_async(self, actions: Any) -> None:
        """Let them begin to step."""
        self.envs.step_async(actions)

    def step_wait(self) -> Any:
        """Wait for them."""
        return self.envs.step_wait()


class Together:
    """All of them. In this process there is nothing to be gained by beginning early, and a plain step is quicker."""

    def __init__(self, envs: ParallelEnv) -> None:
        self._envs, self._actions, self._is_stepping = envs, None, False

    def step_async(self, actions: Any) -> None:
        """Begin, or note down what to do."""
        self._actions, self._is_stepping = actions, can_step_meanwhile(self._envs)
        if self._is_stepping:
            self._envs.step_async(actions)

    def step_wait(self) -> Any:
        """Wait for it, or do it."""
        return self._envs.step_wait() if self._is_stepping else self._envs.step(self._actions)


def together(envs: ParallelEnv) -> tuple[Half, ...]:
    """All of them at once."""
    return (Half(Together(envs), ALL),)


def in_halves(envs: ParallelEnv) -> tuple[Half, ...]:
    """Every other one, if there are two."""
    if envs.num_envs < 2:
        return together(envs)
    return tuple(Half(part, slice(number, None, 2)) for number, part in enumerate(envs.split(2)))


def can_step_meanwhile(envs: ParallelEnv) -> bool:
    """Whether they step while this process does something else."""
    return needs_processes(envs.plan.backend) or envs.plan.backend == "threads"


class Trial:
    """Finds out whether halves are quicker, by collecting a few rollouts in both ways. What is collected is the same."""

    PLAN = (False, False, True, False, True)
    """The first one is not counted: there, everything is new."""
    WORTH_IT = 0.97
    LEAST_SHARE = 0.05
    """Of the time. A policy that takes less can be hidden behind the environments without anybody noticing."""

    def __init__(self) -> None:
        self._seconds: list[float] = []

    @property
    def is_overlapping(self) -> bool:
        """What to try next."""
        return self.PLAN[len(self._seconds)]

    def take(self, envs: ParallelEnv, seconds_per_step: float, policy_share: float) -> bool | None:
        """How long it took, and how much of that the policy. Returns what is better, once that is known."""
        if envs.plan.reason == UNDECIDED:
            return None  # they may yet move to other processes
        if not can_step_meanwhile(envs):
            return False
        self._seconds.append(seconds_per_step)
        if len(self._seconds) == self.PLAN.index(True) and policy_share < self.LEAST_SHARE:
            return False
        if len(self._seconds) < len(self.PLAN):
            return None
        counted = list(zip(self.PLAN, self._seconds, strict=True))[1:]
        halves, all_at_once = (min(took for was, took in counted if was is way) for way in (True, False))
        return halves < self.WORTH_IT * all_at_once
