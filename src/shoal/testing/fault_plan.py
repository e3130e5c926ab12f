"""``FaultPlan``: faults by schedule, to test what you do when environments fail.

::

    FaultPlan ── wrap ──▶ factories ──▶ any vector environment ──▶ FaultyEnv, in whichever process
        ▲                                                              │
        └── fired, check_all_fired ── Ledger (files) ◀── written before a fault happens
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from shoal.testing.faults import Fault
from shoal.testing.faulty import FaultyFactory
from shoal.testing.ledger import Ledger
from shoal.vector.errors import ConfigurationError
from shoal.vector.making import factories_of
from shoal.vector.messages import EnvFn


class FaultNotFired(AssertionError):
    """Faults of a plan have not happened, or not as often as they should have."""


class FaultPlan:
    """Faults that happen at a given step of a given environment, once unless they say otherwise.

    ::

        plan = FaultPlan([Fault("kill", env=3, step=17), Fault("hang", env=0, episode=2, step=5)])
        envs = shoal.make(plan.wrap("CartPole-v1", 8), on_fault="restore", step_timeout=5)
        ...
        plan.check_all_fired()

    A fault that has happened does not happen again in the worker that takes over, not even to the same step. One that
    changed a result, or raised, is repeated when that step is replayed, because it belongs to what is restored.

    Keep the plan for as long as its environments are used, and use it for one vector environment at a time.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        if isinstance(faults, Fault) or not isinstance(faults, Iterable):
            raise ConfigurationError(f"faults must be a list of Fault, got {faults!r}")
        self.faults = tuple(faults)
        """As they were given."""
        for number, fault in enumerate(self.faults):
            if not isinstance(fault, Fault):
                raise ConfigurationError(f"faults[{number}] must be a Fault, got {fault!r}")
        self._ledger = Ledger(sorted({fault.env for fault in self.faults}))

    def wrap(
        self,
        env: str | EnvSpec | Callable[..., gymnasium.Env[Any, Any]] | Sequence[EnvFn],
        num_envs: int | None = None,
        **env_kwargs: Any,
    ) -> list[EnvFn]:
        """One factory for each environment, for ``shoal.make`` or any other vector environment.

        Args:
            env: as for :func:`shoal.make`: an id, a callable that makes an environment, or a list of such callables.
            num_envs: how many; a list has as many as it is long.
            env_kwargs: further keywords go to the environment.
        """
        env_fns, _ = factories_of(env, num_envs, env_kwargs)
        for fault in self.faults:
            if fault.env >= len(env_fns):
                there_are = "is 1 environment" if len(env_fns) == 1 else f"are {len(env_fns)} environments"
                raise ConfigurationError(
                    f"{fault} is for environment {fault.env}, and there {there_are}, counted from 0"
                )
        return [
            FaultyFactory(env_fn, row, tuple(one for one in enumerate(self.faults) if one[1].env == row), self._ledger)
            for row, env_fn in enumerate(env_fns)
        ]

    @property
    def fired(self) -> list[Fault]:
        """The faults that have happened, in that order; one that happened twice is there twice."""
        return [self.faults[visit.fault] for visit in self._ledger.visits() if visit.verdict == "happened"]

    def check_all_fired(self) -> None:
        """Raise :class:`FaultNotFired`, which says why, unless every fault has happened as often as it should have."""
        reasons = [
            f"{fault}: {reason}" for number, fault in enumerate(self.faults) if (reason := self._why_not(number, fault))
        ]
        if reasons:
            raise FaultNotFired(
                f"{len(reasons)} of {len(self.faults)} faults did not fire as planned:\n  " + "\n  ".join(reasons)
            )

    def _why_not(self, number: int, fault: Fault) -> str:
        """Why a fault has not happened, or not often enough; nothing if it has."""
        counts = Counter(visit.verdict for visit in self._ledger.visits() if visit.fault == number)
        if counts["happened"] >= fault.times:
            return ""
        if counts["refused"]:
            return "it was refused, because it would have harmed the process that made the plan"
        if counts["happened"]:
            return f"it fired {_times(counts['happened'])}, not {_times(fault.times)}"
        if counts["passed"]:
            been, unharmed = _times(counts["passed"]), _times(fault.after)
            return f"environment {fault.env} was there {been}, and was to pass {unharmed} before"
        return self._where_it_is(fault)

    def _where_it_is(self, fault: Fault) -> str:
        """How far the environment of a fault has come, if that is not far enough."""
        furthest, name = self._ledger.progress_of(fault.env), f"environment {fault.env}"
        if furthest is None:
            return f"{name} was never made"
        if furthest.episode < 0:
            return f"{name} was never reset"
        place = (
            f"episode {fault.episode}" if fault.phase == "reset" else f"step {fault.step} of episode {fault.episode}"
        )
        got_to = f"it got to episode {furthest.episode} step {furthest.step}"
        if furthest < (fault.episode, fault.step):
            return f"{name} never reached {place}; {got_to}"
        if furthest.episode > fault.episode:
            return f"{name} never reached {place}, because that episode had ended before; {got_to}"
        return f"{name} reached {place}, but not its end"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
