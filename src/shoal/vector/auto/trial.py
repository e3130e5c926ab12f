"""``backend="auto"``: the first steps are taken in the caller's process and timed, then it is decided.

    made ── reset ── step ── step ── ... ── enough seen ──┬── stays in this process
                                                          └── moves to workers, while stepping goes on here (``moving.py``)

Nothing is tried out with environments or seeds that are not the caller's. What costs little never sees another process, and
what costs much takes only its first steps here. Because the same journal that brings back dead workers' environments also
brings these to where they were, no result depends on the decision.
"""

from __future__ import annotations

import itertools
import logging
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from shoal.vector.auto.forecast import Forecast, Measured, forecasts, slowness
from shoal.vector.cpus import others_running
from shoal.vector.messages import EnvFn
from shoal.vector.partition import by_cost
from shoal.vector.step_clock import Spent, StepClock
from shoal.vector.wording import duration

logger = logging.getLogger(__name__)

SLOW_TO_MAKE = 0.02  # seconds; what takes longer to make is made in workers at once, in parallel
SLOW_TO_BEGIN = 0.01  # seconds for making and resetting one
WORTH_MOVING = 0.82  # of the time that a step takes here
CROWDED = 1.5  # times as long as without other processes
FEW_STEPS, LITTLE_TIME = 9, 0.01
SOME_STEPS, LONG_TIME = 5, 0.03
LONGER_TIME, VERY_LONG_TIME = 0.1, 0.5
MANY_STEPS = 200


class Trial:
    """Counts and times the first steps."""

    def __init__(self, num_envs: int, cpus: int, clock: StepClock, *, overlaps: bool) -> None:
        self._num_envs, self._cpus, self._clock, self._overlaps = num_envs, cpus, clock, overlaps
        self._infos = self._some = self._some_infos = 0
        self._steps: list[Spent] = []
        self._others: list[int] = []
        """How many other processes were computing, at each of these."""
        self._has_begun = False
        self._beginning_seconds = 0.0

    def note_beginning(self, seconds: float) -> None:
        """So long it took to make all environments, or to reset them."""
        if not self._has_begun:
            self._beginning_seconds += seconds

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """The caller resets environments, which is not to be counted as steps."""
        begin, clock = time.perf_counter(), vars(self._clock).copy()
        try:
            yield
        finally:
            vars(self._clock).update(clock)
            self.note_beginning(time.perf_counter() - begin)

    def forget_some(self) -> None:
        """What was timed since the last step has been something else."""
        self._clock.take()
        self._some = self._some_infos = 0

    def note_some(self, envs: int, infos: int) -> None:
        """So many environments have taken a step each, and so many of them had an info."""
        self._some += envs
        self._some_infos += infos
        if self._some >= self._num_envs:
            self.note_step(round(self._some_infos * self._num_envs / self._some))
            self._some = self._some_infos = 0

    def note_step(self, infos: int) -> None:
        """A step of all environments has been taken, and so many of them had an info."""
        spent = self._clock.take()
        # The first one may load and compile. Unless it was so long that there is no time for another, it does not count.
        if self._has_begun or spent.seconds >= VERY_LONG_TIME:
            self._steps.append(spent)
            self._others.append(others_running())
            self._infos += infos
        self._has_begun = True

    @property
    def is_over(self) -> bool:
        """Whether enough has been seen."""
        steps, seconds = len(self._steps), sum(spent.seconds for spent in self._steps)
        return (
            (steps >= FEW_STEPS and seconds >= LITTLE_TIME)
            or (steps >= SOME_STEPS and seconds >= LONG_TIME)
            or (steps >= 1 and seconds >= LONGER_TIME)
            or steps >= MANY_STEPS
            or (not self._has_begun and self._beginning_seconds > SLOW_TO_BEGIN * self._num_envs)
        )

    def verdict(self, result_nbytes: int) -> Verdict | None:
        """What was found, if there was anything to see."""
        if not self._steps:
            return None
        # Some may have been disturbed, or have begun episodes.
        middle = sorted(self._steps)[len(self._steps) // 2]
        measured = Measured(
            num_envs=self._num_envs,
            seconds=middle.seconds,
            computing_seconds=middle.processor_seconds,
            waiting_seconds=middle.waiting_seconds,
            result_nbytes=result_nbytes,
            infos=self._infos / len(self._steps),
            overlaps=self._overlaps,
            single_steps=self._clock.single_steps(self._num_envs),
            others=statistics.median(self._others),
        )
        return Verdict(measured, self._cpus, slowness())


class Verdict:
    """What the first steps were like, and what follows from that."""

    def __init__(self, measured: Measured, cpus: int, slowness: float = 1.0) -> None:
        self._measured, self._cpus = measured, cpus
        self.slowness = slowness
        ways = forecasts(measured, cpus, slowness)
        quickest = ways[0]
        self.here = next(way for way in ways if way.backend == "serial")
        self.choice = quickest if quickest.seconds < WORTH_MOVING * self.here.seconds else self.here
        self._other = self.here if self.choice is not self.here else next(way for way in ways if way is not self.here)

    def beside(self, others: int) -> Verdict:
        """What it would be if so many other processes were computing."""
        return Verdict(replace(self._measured, others=others), self._cpus, self.slowness)

    def costing(self, times: float) -> Verdict:
        """What it would be if steps took so many times as long."""
        measured = self._measured
        return Verdict(
            replace(
                measured,
                seconds=times * measured.seconds,
                computing_seconds=times * measured.computing_seconds,
                waiting_seconds=times * measured.waiting_seconds,
                single_steps=[tuple(times * one for one in step) for step in measured.single_steps],
            ),
            self._cpus,
            self.slowness,
        )

    @property
    def first(self) -> str:
        """What the first steps were like, in a sentence."""
        measured = self._measured
        waits = measured.waiting_seconds / max(measured.seconds, 1e-9)
        kind = f", {waits:.0%} of it waiting" if waits > 0.2 else ""
        if measured.overlaps:
            return (
                f"A step of all {measured.num_envs} environments, whose waits overlap, takes "
                f"{duration(measured.seconds)}{kind}."
            )
        step = duration(measured.seconds / measured.num_envs)
        return (
            f"A step of one environment takes {step}{kind}, so a loop over all {measured.num_envs} takes "
            f"{duration(measured.seconds)}."
        )

    @property
    def reason(self) -> str:
        """Two sentences, with the numbers."""
        choice, other = self.choice, self._other
        if choice.backend == "serial":
            second = (
                f"{_named(other)} would take about {duration(other.seconds)}, {duration(other.overhead)} of it for "
                "signalling and copying, which is not worth it."
            )
        else:
            second = (
                f"{_named(choice)} should take about {duration(choice.seconds)}, {duration(choice.overhead)} of it for "
                "signalling and copying."
            )
        return f"{self.first}{self._company()} {second}{self._shared_out()}{self._oversubscribed()}"

    def _company(self) -> str:
        others = round(self._measured.others)
        if not others:
            return ""
        company = f" {others} other {'process was' if others == 1 else 'processes were'} computing."
        # The time of a loop is measured without that in which it had no processor.
        if self.here.seconds - self.here.overhead > CROWDED * self._measured.seconds:
            company += (
                f" Beside {'it' if others == 1 else 'them'} the loop should take about {duration(self.here.seconds)}."
            )
        return company

    def _shared_out(self) -> str:
        costs = self.choice.step_costs
        if not costs:
            return ""
        counts = [last - first for first, last in itertools.pairwise(by_cost(costs, self.choice.num_workers))]
        return (
            f" Steps of single environments take {duration(min(costs))} to {duration(max(costs))}, so workers get shares "
            f"that take equally long: {', '.join(map(str, counts))} environments."
        )

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

    def raise_if_failed(self) -> None:
        """Raise what the factory has raised."""
        if self._error is not None:
            raise self._error

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
        return "This process alone"
    named = f"{way.num_workers} worker processes"
    return named if way.threads_per_worker == 1 else f"{named} with {way.threads_per_worker} threads each"
