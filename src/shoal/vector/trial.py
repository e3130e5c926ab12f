"""``backend="auto"``: the first steps are taken in the caller's process and timed, then it is decided.

    made ── reset ── step ── step ── ... ── enough seen ──┬── stays in this process
                                                          └── moves: made again in workers, which do again what was done

Nothing is tried out with environments or seeds that are not the caller's. What costs little never sees another process, and
what costs much loses a few steps' time. Because the same journal that brings back dead workers' environments also brings these
to where they were, no result depends on the decision.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from shoal.vector.forecast import Forecast, Measured, forecasts
from shoal.vector.messages import EnvFn
from shoal.vector.step_clock import StepClock

logger = logging.getLogger(__name__)

SLOW_TO_MAKE = 0.02  # seconds; what takes longer to make is made in workers at once, in parallel
SLOW_TO_BEGIN = 0.2  # seconds for making and resetting all
WORTH_MOVING = 0.87  # of the time that a step takes here
FEW_STEPS, LITTLE_TIME = 5, 0.005
LONG_TIME, VERY_LONG_TIME = 0.03, 0.5
MANY_STEPS = 200


class Trial:
    """Counts and times the first steps."""

    def __init__(self, num_envs: int, cpus: int, clock: StepClock) -> None:
        self._num_envs, self._cpus, self._clock = num_envs, cpus, clock
        self._steps = self._infos = 0
        self._has_begun = False
        self._beginning_seconds = 0.0

    def note_beginning(self, seconds: float) -> None:
        """So long it took to make all environments, or to reset them."""
        if not self._has_begun:
            self._beginning_seconds += seconds

    def note_step(self, infos: int) -> None:
        """A step of all environments has been taken, and so many of them had an info."""
        if not self._has_begun and self._clock.seconds < VERY_LONG_TIME:
            # The first one may load and compile. Unless it was so long that there is no time for another, it does not count.
            self._has_begun = True
            self._clock.clear()
            return
        self._has_begun = True
        self._steps += 1
        self._infos += infos

    @property
    def is_over(self) -> bool:
        """Whether enough has been seen."""
        steps, seconds = self._steps, self._clock.seconds
        return (
            (steps >= FEW_STEPS and seconds >= LITTLE_TIME)
            or (steps >= 1 and seconds >= LONG_TIME)
            or steps >= MANY_STEPS
            or (not self._has_begun and self._beginning_seconds > SLOW_TO_BEGIN)
        )

    def verdict(self, result_nbytes: int) -> Verdict | None:
        """What was found, if there was anything to see."""
        if self._steps < 1:
            return None
        steps, clock = self._steps, self._clock
        measured = Measured(
            num_envs=self._num_envs,
            seconds=clock.seconds / steps,
            computing_seconds=clock.processor_seconds / steps,
            waiting_seconds=clock.waiting_seconds / steps,
            result_nbytes=result_nbytes,
            infos=self._infos / steps,
        )
        return Verdict(measured, forecasts(measured, self._cpus))


class Verdict:
    """What the first steps were like, and what follows from that."""

    def __init__(self, measured: Measured, ways: Sequence[Forecast]) -> None:
        self._measured = measured
        quickest = ways[0]
        here = next(way for way in ways if way.backend == "serial")
        self.choice = quickest if quickest.seconds < WORTH_MOVING * here.seconds else here
        self._other = here if self.choice is not here else next(way for way in ways if way is not here)

    @property
    def reason(self) -> str:
        """Two sentences, with the numbers."""
        measured, choice, other = self._measured, self.choice, self._other
        step = _duration(measured.seconds / measured.num_envs)
        waits = measured.waiting_seconds / max(measured.seconds, 1e-9)
        kind = f", {waits:.0%} of it waiting" if waits > 0.2 else ""
        first = (
            f"A step of one environment takes {step}{kind}, so a loop over all {measured.num_envs} takes "
            f"{_duration(measured.seconds)}."
        )
        if choice.backend == "serial":
            second = (
                f"{_named(other)} would take about {_duration(other.seconds)}, {_duration(other.overhead)} of it for "
                "signalling and copying, which is not worth it."
            )
        else:
            second = (
                f"{_named(choice)} should take about {_duration(choice.seconds)}, {_duration(choice.overhead)} of it for "
                "signalling and copying."
            )
        return f"{first} {second}{self._oversubscribed()}"

    def _oversubscribed(self) -> str:
        busy = self._measured.computing_seconds / max(self._measured.seconds, 1e-9)
        if busy < 1.3:
            return ""
        remedy = "workers get one thread each" if self.choice.backend == "shm" else "set OMP_NUM_THREADS=1 and compare"
        return f" Its steps keep {busy:.1f} processors busy, probably with threads of BLAS or OpenMP: {remedy}."


class FirstMade:
    """A factory that has made its first environment already, and knows how long that took."""

    def __init__(self, env_fn: EnvFn) -> None:
        self._env_fn = env_fn
        self._env: Any = None
        self._error: Exception | None = None
        begin = time.perf_counter()
        try:
            self._env = env_fn()
        except Exception as error:
            self._error = error  # for whoever calls, who knows what to say about it
        self.seconds = time.perf_counter() - begin

    def __call__(self) -> Any:
        """What came of the first call, once; then new environments."""
        (env, self._env), (error, self._error) = (self._env, None), (self._error, None)
        if error is not None:
            raise error
        return self._env_fn() if env is None else env

    def close(self) -> None:
        """Nobody wants that environment."""
        close = getattr(self._env, "close", None)
        try:
            if close is not None:
                close()
        except Exception:
            logger.warning("an environment raised in close()", exc_info=True)


def _named(way: Forecast) -> str:
    if way.backend == "serial":
        return "A plain loop"
    return f"{way.num_workers} {'worker processes' if way.backend == 'shm' else 'threads'}"


def _duration(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.2g} µs"
