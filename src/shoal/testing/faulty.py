"""``FaultyEnv``: an environment to which the faults of a plan happen, and which is as it was otherwise.

It counts its episodes and steps itself. In a replacement that repeats everything from the start the count comes out the
same; Shoal tells it where it is when a replay begins later (see ``shoal.vector.replays``); and a state that was captured has
the count in it. So an environment is at the same place whoever runs it, and however it was brought there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from shoal.testing.faults import Fault
from shoal.testing.harm import harm, spoiled
from shoal.testing.ledger import Ledger, Verdict, Visit
from shoal.vector.errors import ConfigurationError
from shoal.vector.messages import EnvFn
from shoal.vector.replays import IS_REPLAYING

Numbered = tuple[int, Fault]
"""A fault, and its number in the plan."""


class Fate:
    """What is to happen to one environment."""

    def __init__(self, env_index: int, faults: Sequence[Numbered], ledger: Ledger) -> None:
        self._env_index = env_index
        self._ledger = ledger
        self._faults: dict[tuple[Any, ...], list[Numbered]] = {}
        for number, fault in faults:
            episode = -1 if fault.phase == "construct" else fault.episode
            moment = fault.phase, fault.changes_result, episode, fault.step
            self._faults.setdefault(moment, []).append((number, fault))

    def strike(self, phase: str, episode: int, step: int) -> None:
        """The environment is here: let happen what happens and needs no result. Before the first reset, episode is -1."""
        if not self._faults:
            return
        self._ledger.note_progress(self._env_index, episode, step)
        for number, fault in self._faults.get((phase, False, episode, step), ()):
            if self._happens(number, fault):
                harm(fault)

    def spoil(self, phase: str, episode: int, step: int, result: Any) -> Any:
        """What becomes of a result here."""
        for number, fault in self._faults.get((phase, True, episode, step), ()):
            if self._happens(number, fault):
                result = spoiled(fault, result)
        return result

    def put_away(self) -> None:
        """Keep nothing open."""
        self._ledger.put_away()

    def _happens(self, number: int, fault: Fault) -> bool:
        if IS_REPLAYING.get():
            seen = [visit.verdict for visit in self._ledger.visits() if visit.fault == number]
            if not seen:
                return False  # nothing happens for the first time in a replay: this is the past of another environment
            if fault.belongs_to_history:
                # What the caller was told the first time has to come out again, and is no news.
                return seen[-1] == "happened"
        verdict = self._ledger.note_visit(number, lambda visits: self._judged(fault, visits))
        if verdict == "refused":
            raise ConfigurationError(
                f"{fault} was not let happen: it would {'hang' if 'hang' in fault.kind else 'end'} the process that made "
                'the plan. What to do: run the environments in worker processes, with backend="shm" or backend="pipes".'
            )
        return verdict == "happened"

    def _judged(self, fault: Fault, visits: list[Visit]) -> Verdict:
        number = sum(visit.verdict != "refused" for visit in visits)
        if number < fault.after or not (fault.every_time or number < fault.after + fault.times):
            return "passed"
        return "refused" if fault.ends_process and os.getpid() == self._ledger.owner else "happened"


class FaultyEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment with a fate."""

    def __init__(self, env: gymnasium.Env[Any, Any], fate: Fate) -> None:
        super().__init__(env)
        self._place_in_plan = -1, 0
        # Functions are not part of a captured state, so whoever takes over from another environment has its own fate.
        self._strike, self._spoil, self._put_away = fate.strike, fate.spoil, fate.put_away

    def reset(self, **keywords: Any) -> Any:
        """As of the environment, unless a fault happens."""
        self._place_in_plan = episode, step = self._place_in_plan[0] + 1, 0
        self._strike("reset", episode, step)
        return self._spoil("reset", episode, step, self.env.reset(**keywords))

    def step(self, action: Any) -> Any:
        """As of the environment, unless a fault happens."""
        self._place_in_plan = episode, step = self._place_in_plan[0], self._place_in_plan[1] + 1
        self._strike("before step", episode, step)
        result = self.env.step(action)
        self._strike("after step", episode, step)
        return self._spoil("after step", episode, step, result)

    def close(self) -> None:
        """As of the environment."""
        self._put_away()
        super().close()

    def shoal_next_episode(self, number: int) -> None:
        """Shoal begins a replay later than at the beginning: with this episode."""
        self._place_in_plan = number - 1, 0

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """That of the environment: a plan cannot be made from an id."""
        return self.env.spec


@dataclass(frozen=True)
class FaultyFactory:
    """A factory whose environment has faults."""

    env_fn: EnvFn
    env_index: int
    faults: tuple[Numbered, ...]
    ledger: Ledger

    def __call__(self) -> FaultyEnv:
        """Make one."""
        fate = Fate(self.env_index, self.faults, self.ledger)
        fate.strike("construct", -1, 0)
        return FaultyEnv(self.env_fn(), fate)

    def __repr__(self) -> str:
        return repr(self.env_fn)
