"""Watching an environment while it runs alone, for what can be seen in a single run.

What it returns is held against its spaces and against Gymnasium's interface; infos are pickled and read again, as on their
way out of a worker; what it returned before is looked at again, whether it has changed; and the global random numbers of
the process are looked at after every call.
"""

from __future__ import annotations

import pickle
import random
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from shoal.testing.plain import plain
from shoal.testing.spaces import why_outside
from shoal.vector.observations import shortened
from shoal.vector.pickling import dumps
from shoal.vector.sameness import difference

KEPT = 3  # how many results of an environment are looked at again


class Symptom(NamedTuple):
    """Something that was seen: what kind of finding it is, where, and what."""

    kind: str
    place: str
    what: str


class Inspector:
    """Present during runs; what it saw is in :attr:`symptoms`, the first of each kind."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], Symptom] = {}

    @property
    def symptoms(self) -> list[Symptom]:
        """What was seen, in the order of its first appearance."""
        return list(self._seen.values())

    def note(self, kind: str, place: str, what: str, which: str = "") -> None:
        """Remember the first of each kind (and of each ``which``)."""
        self._seen.setdefault((kind, which), Symptom(kind, place, " ".join(what.split())))


class ContractInspector(Inspector):
    """Holds results against the environment's spaces and Gymnasium's interface."""

    def before(self, call: str, place: str) -> None:
        """Nothing to prepare."""

    def after(self, call: str, place: str, env: Any, result: Any) -> None:
        """Look at what it returned."""
        if call == "make" or not isinstance(result, tuple | list) or len(result) != (2 if call == "reset" else 5):
            return
        if why := why_outside(env.observation_space, result[0]):
            self.note("observation-outside-space", place, why)
        if call == "step":
            _, reward, terminated, truncated, _ = result
            if not _is_number(reward):
                self.note("reward-not-a-number", place, f"reward is {shortened(reward)}")
            for name, flag in (("terminated", terminated), ("truncated", truncated)):
                if not isinstance(flag, bool | np.bool_):
                    self.note("flag-not-a-bool", place, f"{name} is {shortened(flag)}")
        info = result[-1]
        if isinstance(info, Mapping):
            self._look_at_info(place, info)
        else:
            self.note("info-not-a-dict", place, f"info is {shortened(info)}")

    def _look_at_info(self, place: str, info: Mapping[Any, Any]) -> None:
        if not info:
            return
        try:
            again = pickle.loads(dumps(info))
        except Exception:
            self.note("info-unpicklable", place, _what_is_unpicklable(info))
            return
        if what := difference(plain(info), plain(again), "info"):
            self.note("info-changed-by-pickling", place, what)


class BufferInspector(Inspector):
    """Looks again at what was returned before: a later call must not have changed it."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: deque[tuple[str, str, Any, Any]] = deque()

    def before(self, call: str, place: str) -> None:
        """A new environment has returned nothing yet."""
        if call == "make":
            self._kept.clear()

    def after(self, call: str, place: str, env: Any, result: Any) -> None:
        """Keep what it returned, and look again at what was kept."""
        for _ in range(max(0, len(self._kept) - KEPT)):
            self._look_again()
        if call != "make" and isinstance(result, tuple | list) and result:
            for name, value in (("observation", result[0]), ("info", result[-1])):
                if not isinstance(value, int | float | str | bytes | np.generic):
                    self._kept.append((name, place, value, plain(value)))

    def _look_again(self) -> None:
        name, place, value, before = self._kept.popleft()
        if difference(before, plain(value)):
            self.note("reused-buffer", place, name, which=name)


class GlobalRandomInspector(Inspector):
    """Sees when an environment draws from, or seeds, the random numbers that are one per process."""

    def before(self, call: str, place: str) -> None:
        """See how they are."""
        self._state = _global_states()

    def after(self, call: str, place: str, env: Any, result: Any) -> None:
        """See whether they are as they were."""
        for name, state in _global_states().items():
            if state != self._state[name]:
                self.note("global-rng", place, name, which=name)


def _global_states() -> dict[str, Any]:
    name, keys, *rest = np.random.get_state()
    return {"random": random.getstate(), "numpy.random": (name, np.asarray(keys).tobytes(), *rest)}


class Perturber:
    """Gives the global random numbers another seed before every call, so that whoever draws from them gets others."""

    def __init__(self) -> None:
        self._calls = 0

    def before(self, call: str, place: str) -> None:
        """Seed them."""
        self._calls += 1
        random.seed(10_000 + self._calls)
        np.random.seed(10_000 + self._calls)

    def after(self, call: str, place: str, env: Any, result: Any) -> None:
        """Nothing to look at."""


def seed_global_random(seed: int = 0) -> None:
    """The same global random numbers for every run, so that an environment that draws from them is no worse than that."""
    random.seed(seed)
    np.random.seed(seed)


def uses_unseeded_generator(env: Any, seed: int) -> bool:
    """Whether the environment has random numbers by Gymnasium's ``np_random`` that ``reset(seed=seed)`` did not seed."""
    base = getattr(env, "unwrapped", env)
    if not isinstance(base, gymnasium.Env):
        return False
    return getattr(base, "_np_random", None) is not None and getattr(base, "_np_random_seed", seed) != seed


def _is_number(reward: Any) -> bool:
    try:
        number = float(reward.item() if isinstance(reward, np.ndarray) and reward.size == 1 else reward)
    except (TypeError, ValueError):
        return False
    return not isinstance(reward, str | bytes) and not np.isnan(number)


def _what_is_unpicklable(value: Any, path: str = "info") -> str:
    """The part that cannot be pickled, and why."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            try:
                pickle.loads(dumps(part))
            except Exception:
                return _what_is_unpicklable(part, f"{path}[{key!r}]")
    try:
        pickle.loads(dumps(value))
    except Exception as error:
        return f"{path}: {type(error).__name__}: {error}"
    return path
