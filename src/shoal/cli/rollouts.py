"""Rolling out a vector environment with random actions: how fast it was, and a digest of everything it returned."""

from __future__ import annotations

import hashlib
import itertools
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from shoal.vector.plan import UNDECIDED

Vector = VectorEnv[Any, Any, Any]


@dataclass(frozen=True)
class Rollout:
    """What one rollout gave."""

    steps_per_second: float
    start_seconds: float
    digest: str
    """Of what the reset and the first ``rounds`` steps returned."""
    backend: str | None
    """Where the environments were run, if they say so."""
    reason: str | None
    """Why there."""


def roll_out(make: Callable[[], Vector], rounds: int, seed: int = 0) -> Rollout:
    """Make environments, reset them, step them ``rounds`` times, close them.

    Steps that are spent on deciding where to run come first and are not timed, because that happens once, however long a
    rollout is. The digest is taken afterwards from copies, so that taking it is not timed.
    """
    began = time.perf_counter()
    envs = make()
    started = time.perf_counter() - began
    try:
        envs.action_space.seed(seed)
        actions = itertools.cycle([envs.action_space.sample() for _ in range(rounds)])
        results: list[Any] = [envs.reset(seed=seed)]
        while _plan(envs, "reason") == UNDECIDED:
            step = envs.step(next(actions))
            if len(results) <= rounds:
                results.append(step)
        began = time.perf_counter()
        results.extend(envs.step(next(actions)) for _ in range(rounds))
        elapsed = time.perf_counter() - began
        digest = _digest(results[: rounds + 1])
        return Rollout(rounds * envs.num_envs / elapsed, started, digest, _plan(envs, "backend"), _plan(envs, "reason"))
    finally:
        envs.close()


def _plan(envs: Vector, what: str) -> str | None:
    plan = getattr(envs, "plan", None)
    return None if plan is None else str(getattr(plan, what))


def _digest(results: Any) -> str:
    hasher = hashlib.blake2b(digest_size=6)
    _feed(hasher, results)
    return hasher.hexdigest()


def _feed(hasher: hashlib.blake2b, value: Any) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        hasher.update(f"{value.dtype}{value.shape}".encode())
        hasher.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            hasher.update(str(key).encode())
            _feed(hasher, value[key])
    elif isinstance(value, list | tuple | np.ndarray):
        for item in value:
            _feed(hasher, item)
    else:
        hasher.update(pickle.dumps(value))
