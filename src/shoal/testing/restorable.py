"""``check_restorable``: can an environment be brought back when its worker dies, and if not, what differs at which step?

It is run, its worker is killed twice, and what comes out is compared with an undisturbed run. Then each way to bring it back
without repeating its whole life is rehearsed in another process.
"""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import dataclass
from typing import Any

from shoal.vector.arguments import check_count
from shoal.vector.backends import processes_unavailable
from shoal.vector.errors import BackendUnavailable, ConfigurationError, ReplayDiverged
from shoal.vector.making import factories_of
from shoal.vector.parallel_env import ParallelEnv
from shoal.vector.sameness import difference
from shoal.vector.shortening import REHEARSED_STEPS, Way
from shoal.vector.supervisor import Supervisor

SEED = 0
FEWEST_STEPS = 4 * REHEARSED_STEPS


@dataclass(frozen=True)
class Restorability:
    """What :func:`check_restorable` has found. Every text says what differs, and is empty where nothing does."""

    env: str
    steps: int
    replay: str
    """Doing everything again, from the beginning."""
    resets: str
    """Beginning at its last reset, with its random numbers as they were."""
    captures: str
    """Beginning at a captured state."""

    @property
    def ok(self) -> bool:
        """Whether it can be brought back at all."""
        return not self.replay

    @property
    def is_bounded(self) -> bool:
        """Whether that takes no longer, however long it lives."""
        return self.ok and (not self.resets or not self.captures)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        if not self.ok:
            return (
                f"{self.env} cannot be restored: {self.replay}\n"
                "  What to do: cure it (check_parallel says what is wrong), or run it with replayable=False or "
                'on_fault="truncate".'
            )
        lines = [f"{self.env} can be restored: {self.steps} steps with two kills gave what an undisturbed run gives."]
        for name, difference_ in (("its last reset", self.resets), ("a captured state", self.captures)):
            lines.append(f"  from {name}: {'no, ' + difference_ if difference_ else 'yes'}")
        if not self.is_bounded:
            lines.append(
                "  So its whole history is kept, and repeated. What to do for long runs: let reset() set everything that "
                "matters, or give it get_state() and set_state()."
            )
        return "\n".join(lines)


def check_restorable(env_fn: Any, *, steps: int = 200, call_timeout: float = 20.0) -> Restorability:
    """Find out whether an environment can be brought back after the death of its worker.

    Args:
        env_fn: a callable that makes the environment, the id of a registered one, or its ``EnvSpec``.
        steps: how many random steps to take.
        call_timeout: seconds that making it, a reset or a step may take.
    """
    check_count("steps", steps)
    if steps < FEWEST_STEPS:
        raise ConfigurationError(f"steps must be at least {FEWEST_STEPS}, so that something can differ; got {steps}")
    if reason := processes_unavailable():
        raise BackendUnavailable(f"check_restorable runs the environment in another process, and {reason}")
    (factory, *_), spec = factories_of(env_fn, 1, {})
    name = spec.id if spec is not None else getattr(env_fn, "__name__", repr(env_fn))
    limits = {"construct": call_timeout, "reset": call_timeout, "call": call_timeout, "step": call_timeout}
    engine: dict[str, Any] = {
        "backend": "shm", "num_workers": 1, "on_fault": "restore", "timeouts": limits, "replayable": True,
    }  # fmt: skip
    quiet = logging.getLogger("shoal.vector.supervisor")
    was = quiet.level
    quiet.setLevel(logging.ERROR)  # these deaths are ours
    try:
        with ParallelEnv([factory] * 2, **engine) as envs:
            undisturbed, _ = _play(envs, steps, kills=())
        with ParallelEnv([factory] * 2, **engine) as envs:
            try:
                disturbed, cannot_capture = _play(envs, steps, kills=(steps // 3, 2 * steps // 3))
            except ReplayDiverged as error:
                where = str(error).partition("to where they were: ")[2].partition("\n")[0]
                return Restorability(name, steps, where, "not tried", "not tried")
            replay = difference(disturbed, undisturbed) or ""
            resets, captures = _rehearse(envs, cannot_capture)
    finally:
        quiet.setLevel(was)
    return Restorability(name, steps, replay and f"after it was brought back, {replay}", resets, captures)


def _play(envs: ParallelEnv, steps: int, kills: tuple[int, ...]) -> tuple[list[Any], str]:
    """All results but the infos, and why states could not be captured on the way."""
    envs.action_space.seed(SEED)
    results: list[Any] = [envs.reset(seed=SEED)[0]]
    cannot_capture = ""
    for number in range(steps):
        if number in kills:
            os.kill(envs.worker_pids[0], signal.SIGKILL)
        if kills and number == kills[-1] + 1:
            cannot_capture = _supervisor_of(envs).upkeep.shortener.try_capture(0)
        results.append(envs.step(envs.action_space.sample())[:4])
    return results, cannot_capture


def _rehearse(envs: ParallelEnv, cannot_capture: str) -> tuple[str, str]:
    supervisor = _supervisor_of(envs)
    resets = supervisor.upkeep.rehearse_now(0, Way.RESETS)
    captures = cannot_capture or supervisor.upkeep.rehearse_now(0, Way.CAPTURES)
    return (
        "no episode ended in so few steps" if resets is None else resets,
        "its worker died" if captures is None else captures,
    )


def _supervisor_of(envs: ParallelEnv) -> Supervisor:
    assert isinstance(envs._pool.backend, Supervisor)
    return envs._pool.backend
