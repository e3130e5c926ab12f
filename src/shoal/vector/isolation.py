"""A ``random`` and a ``numpy.random`` for every environment by itself.

These two are one per process. An environment that draws from them depends on who else draws in the same process, so on the
backend and on the number of workers. Isolated, each environment has its own: they are put in place before its code runs
and taken out afterwards, begin with the environment's index, and begin anew with every ``reset(seed=…)``.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random.mtrand import get_bit_generator, set_bit_generator

from shoal.vector.messages import EnvFn
from shoal.vector.overlap import is_coroutine_env

_ONE_AT_A_TIME = threading.RLock()  # what is one per process cannot be used by two threads at once


class GlobalStreams:
    """One environment's global random numbers; as a context, they are the process's."""

    def __init__(self, seed: int, *, gives_back: bool) -> None:
        self._gives_back = gives_back
        self._outside: tuple[Any, Any] | None = None
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begin anew."""
        self._python_state = random.Random(seed).getstate()  # noqa: S311 - these are not secrets
        self._numpy = np.random.RandomState(seed % 2**32)._bit_generator

    def __enter__(self) -> None:
        _ONE_AT_A_TIME.acquire()
        if self._gives_back:
            self._outside = random.getstate(), get_bit_generator()
        random.setstate(self._python_state)
        set_bit_generator(self._numpy)

    def __exit__(self, *_: object) -> None:
        self._python_state = random.getstate()
        self._numpy = get_bit_generator()
        if self._outside is not None:
            random.setstate(self._outside[0])
            set_bit_generator(self._outside[1])
        _ONE_AT_A_TIME.release()


class IsolatedEnv:
    """An environment whose code sees its own global random numbers. Everything else is the environment's."""

    def __init__(self, env_fn: EnvFn, streams: GlobalStreams) -> None:
        self._streams = streams
        with streams:
            self._env = env_fn()
        if is_coroutine_env(self._env):
            raise TypeError(
                "isolate_rng cannot be used with coroutines: while one of them waits, others run with the same `random`"
            )

    def reset(self, **keywords: Any) -> Any:
        """Reset it; with a seed, its global random numbers begin anew too."""
        if keywords.get("seed") is not None:
            self._streams.seed(keywords["seed"])
        with self._streams:
            return self._env.reset(**keywords)

    def step(self, action: Any) -> Any:
        """Step it."""
        with self._streams:
            return self._env.step(action)

    def close(self) -> None:
        """Close it."""
        with self._streams:
            self._env.close()

    def get_wrapper_attr(self, name: str) -> Any:
        """An attribute of the environment or of its wrappers; a method sees the environment's random numbers too."""
        getter = getattr(self._env, "get_wrapper_attr", None)
        value = getter(name) if getter is not None else getattr(self._env, name)
        return self._isolated(value) if callable(value) else value

    def _isolated(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._streams:
                return method(*args, **kwargs)

        return call

    def __getattr__(self, name: str) -> Any:
        if name == "_env":  # not there yet: this object is being unpickled
            raise AttributeError(name)
        return getattr(self._env, name)


@dataclass(frozen=True)
class IsolatedFactory:
    """A factory whose environment is isolated."""

    env_fn: EnvFn
    env_index: int
    gives_back: bool
    """Whether the process's own random numbers are put back afterwards. In a worker nobody else uses them."""

    def __call__(self) -> Any:
        """Make one."""
        return IsolatedEnv(self.env_fn, GlobalStreams(self.env_index, gives_back=self.gives_back))

    def __repr__(self) -> str:
        return repr(self.env_fn)
