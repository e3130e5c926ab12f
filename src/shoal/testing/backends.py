"""The last experiment: many environments at a time on a backend, in every bit what the lone ones gave.

The expected batches are put together from the lone runs, as Gymnasium arranges them, and compared with what the vector
environment returns. It runs in a fresh process for each backend, because environments in one's own process cannot be ended.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from shoal.testing.experiments import FEWEST_STEPS, Material, Subject, unpickled
from shoal.testing.fresh import Progress
from shoal.testing.lone import Difference, Differences, Make, Record, Trace, batched
from shoal.testing.plain import plain
from shoal.vector.errors import ShoalError, WaitTimeout
from shoal.vector.infos import batch_infos
from shoal.vector.parallel_env import ParallelEnv
from shoal.vector.sameness import difference

MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)
LAYOUT_SECONDS = 8.0  # with a slow environment, the layouts with many of them are left out
ENV_STEPS = 600  # so many steps of environments for each layout, or all that there are


class Layout(NamedTuple):
    """How many environments on how many workers."""

    num_envs: int
    num_workers: int

    def __str__(self) -> str:
        envs = f"{self.num_envs} environment{'s' if self.num_envs > 1 else ''}"
        return f"{envs} on {self.num_workers} worker{'s' if self.num_workers > 1 else ''}"


class Comparison(NamedTuple):
    """What one backend gave."""

    backend: str
    differences: Differences
    where: str = ""
    """With which layout and autoreset mode they differ."""
    raised: str = ""
    """What the vector environment raised, in words."""
    is_too_slow: bool = False
    """Whether that was a wait that ended early."""


def layouts_of(backend: str, num_envs: Sequence[int], num_workers: Sequence[int]) -> list[Layout]:
    """The layouts to try: every number of workers that makes a difference to a number of environments."""
    workers = num_workers if backend != "serial" else [1]
    return list(dict.fromkeys(Layout(envs, min(envs, count)) for envs in num_envs for count in workers))


def in_words(layouts: dict[str, list[Layout]]) -> str:
    """Which backends, how many environments, how many workers."""
    every = [layout for each in layouts.values() for layout in each]
    envs, workers = (", ".join(map(str, sorted(numbers))) for numbers in map(set, zip(*every, strict=True)))
    return (
        f"{', '.join(layouts)} with {envs} environment{'' if envs == '1' else 's'} "
        f"on {workers} worker{'' if workers == '1' else 's'}"
    )


def affordable(layouts: Sequence[Layout], steps: int, step_seconds: float) -> list[Layout]:
    """Those that do not take too long; the first in any case."""
    affordable = [layout for layout in layouts if layout.num_envs * steps * step_seconds <= LAYOUT_SECONDS]
    return affordable or list(layouts[:1])


def on_backend(
    progress: Progress, subject: Subject, material: bytes, backend: str, layouts: Sequence[Layout], call_seconds: float
) -> Comparison:
    """Compare every layout, and stop at the first that differs. The autoreset modes take turns."""
    lone = unpickled(material)
    make = _LateFactory(subject)
    found, where = Differences(), ""
    plans = list(zip(layouts, itertools.cycle(MODES), strict=False))
    if len(layouts) == 1:
        plans = [(layouts[0], mode) for mode in MODES]
    for plan in plans:
        layout, mode = plan
        name = f"{layout}, autoreset_mode={mode.name}"
        progress.say(f"making {backend} with {layout}", call_seconds * layout.num_envs)
        try:
            with _Rollout(backend, layout, mode, make, _start_method(plan is plans[-1])) as rollout:
                found |= rollout.compare(progress, lone, subject.seeds, call_seconds)
                progress.say(f"closing {backend} with {layout}", call_seconds)
        except ShoalError as error:
            return Comparison(backend, found, name, f"{type(error).__name__}: {error}", isinstance(error, WaitTimeout))
        where = where or (name if found.first else "")
        if found.outside_infos:
            return Comparison(backend, found, name)
    return Comparison(backend, found, where)


def _start_method(is_last: bool) -> str | None:
    """Forks are quick, and this process is fresh; but once at least as users get it."""
    return "fork" if sys.platform == "linux" and not is_last else None


@dataclass(frozen=True)
class _LateFactory:
    """Unpickles the factory where it is called: what has been imported when workers are forked is ours alone."""

    subject: Subject

    def __call__(self) -> Any:
        with _ONE_AT_A_TIME:
            if self.subject not in _FACTORIES:
                _FACTORIES[self.subject] = self.subject.factory()
        return _FACTORIES[self.subject]()


_ONE_AT_A_TIME = threading.Lock()
_FACTORIES: dict[Subject, Make] = {}
"""Unpickled once in each process, as by a worker, so that environments share what they would share there."""


class _Rollout:
    """A vector environment that is stepped with the actions of the lone ones."""

    def __init__(self, backend: str, layout: Layout, mode: AutoresetMode, make: Make, start_method: str | None) -> None:
        self._mode = mode
        self._num_envs = layout.num_envs
        self._name = f"{backend} with {layout}"
        self._envs = ParallelEnv(
            [make] * layout.num_envs,
            backend=backend,
            num_workers=layout.num_workers,
            start_method=start_method,
            autoreset_mode=mode,
            pin_workers=False,
        )

    def __enter__(self) -> _Rollout:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._envs.close(terminate=kind is not None)

    def compare(self, progress: Progress, lone: Material, seeds: Sequence[int], call_seconds: float) -> Differences:
        """Every batch with the one that the lone environments make together."""
        envs, seeds = self._envs, [seeds[row % len(seeds)] for row in range(self._num_envs)]
        traces = lone.next_step if self._mode is AutoresetMode.NEXT_STEP else lone.same_step
        records_each = max(FEWEST_STEPS, ENV_STEPS // self._num_envs) + 1
        runs: list[Trace] = [traces[seed][:records_each] for seed in seeds]
        seconds = call_seconds * self._num_envs
        found = Differences()
        for number, records in enumerate(zip(*runs, strict=True)):
            progress.say(f"{'reset' if number == 0 else f'step {number}'} of {self._name}", seconds)
            if number == 0:
                envs.reset_async(seed=seeds)
                observation, info = envs.reset_wait(timeout=seconds)
                got: tuple[Any, ...] = (observation, None, None, None, info)
            else:
                actions = [lone.actions[seed][number - 1] for seed in seeds]
                envs.step_async(batched(envs.single_action_space, actions))
                got = envs.step_wait(timeout=seconds)
            expected = _batch(envs.single_observation_space, records, is_reset=number == 0)
            found |= _compare(number, expected, got)
            if found.outside_infos:
                break
        return found


def _batch(space: Any, records: Sequence[Record], *, is_reset: bool) -> tuple[Any, ...]:
    """The batch that these environments make together."""
    observations = [record.observation for record in records]
    observation = batched(space, observations)
    info = batch_infos([(row, record.info) for row, record in enumerate(records)], len(records))
    if is_reset:
        return observation, None, None, None, info
    reward = np.array([np.asarray(record.reward).item() for record in records], dtype=np.float64)
    terminated = np.array([bool(record.terminated) for record in records])
    truncated = np.array([bool(record.truncated) for record in records])
    return observation, reward, terminated, truncated, info


def _compare(number: int, expected: tuple[Any, ...], got: tuple[Any, ...]) -> Differences:
    place = "reset" if number == 0 else f"step {number}"
    names = ("observation", "reward", "terminated", "truncated", "info")
    for name, left, right in zip(names, expected, got, strict=True):
        if what := difference(plain(left), plain(right), name):
            found = Difference(place, f"{what} (alone, and on the backend)")
            return Differences(found, None if name == "info" else found)
    return Differences()
