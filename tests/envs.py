"""Small environments with one trait each. Module-level, so that every process can name them."""

from __future__ import annotations

import copy
import functools
import os
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Env = gymnasium.Env[Any, Any]
Maker = Callable[[], Env]


class CountingEnv(Env):
    """Counts its steps and ends after ``length`` of them. The observation is the count, the info says everything."""

    def __init__(self, length: int = 3, rich: bool = True) -> None:
        self.observation_space = spaces.Box(-1000, 1000, (2,), np.float32)
        self.action_space = spaces.Discrete(5)
        self.length, self.rich = length, rich
        self.resets = self.count = 0
        self.label = "plain"

    def _observe(self) -> tuple[Any, dict[str, Any]]:
        info = {"count": self.count, "resets": self.resets} if self.rich else {}
        return np.array([self.count, self.resets], np.float32), info

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.resets += 1
        self.count = 0 if not options else options.get("start", 0)
        return self._observe()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        observation, info = self._observe()
        return observation, float(action), self.count >= self.length, False, info

    def describe(self, prefix: str = "") -> str:
        return f"{prefix}{self.label}:{self.count}"


class SpaceEnv(Env):
    """Observes and takes anything of ``space``; says in its info what it was given, and of which type."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], length: int = 4) -> None:
        # Copies, because a space has random numbers of its own, which environments must not share.
        self.observation_space, self.action_space = copy.deepcopy(observation_space), copy.deepcopy(action_space)
        self.length = length

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        info = {"given": [action], "kind": type(action).__name__}
        return self.observation_space.sample(), self.count / 3, self.count >= self.length, False, info


class ReusingEnv(CountingEnv):
    """Returns the same observation, info and inner list every time, and changes them in place."""

    def __init__(self) -> None:
        super().__init__()
        self._buffer = np.zeros(2, np.float32)
        self._info: dict[str, Any] = {"trace": [], "array": np.zeros(1)}

    def _observe(self) -> tuple[Any, dict[str, Any]]:
        self._buffer[:] = self.count, self.resets
        self._info["trace"].append(self.count)
        self._info["array"][0] = self.count
        return self._buffer, self._info


class GrumpyEnv(CountingEnv):
    """Raises what it is told, where it is told."""

    def __init__(self, error: Callable[[], BaseException] = ValueError, where: str = "step", at: int = 2) -> None:
        if where == "construct":
            raise error()
        super().__init__(length=100)
        self._error, self._where, self._at = error, where, at

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self._where == "reset":
            raise self._error()
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._where == "step" and self.count + 1 == self._at:
            self.count += 1
            raise self._error()
        return super().step(action)

    def complain(self) -> None:
        raise self._error()


class ReturningEnv(CountingEnv):
    """Returns from ``step`` (or ``reset``) what ``alter`` makes of the right result."""

    def __init__(self, alter: Callable[[Any], Any], where: str = "step") -> None:
        super().__init__(length=100)
        self._alter, self._where = alter, where

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        result = super().reset(seed=seed, options=options)
        return self._alter(result) if self._where == "reset" else result

    def step(self, action: Any) -> Any:
        result = super().step(action)
        return self._alter(result) if self._where == "step" else result


class SlowEnv(CountingEnv):
    """Sleeps in ``step`` as long as the action says, in quarters of a second."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(float(action) / 4)
        return super().step(action)


class DozingEnv(CountingEnv):
    """Sleeps for five milliseconds in every step."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(0.005)
        return super().step(action)


class HangingEnv(CountingEnv):
    """Never returns from a step with action 4."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        while action == 4:
            time.sleep(1)
        return super().step(action)


class DyingEnv(CountingEnv):
    """Ends its own process when it is given action 4."""

    def __init__(self, how: str = "kill", where: str = "step") -> None:
        super().__init__(length=100)
        self._how = how
        if where == "construct":
            self._die()

    def _die(self) -> None:
        if self._how == "kill":
            os.kill(os.getpid(), 9)
        os._exit(7)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action == 4:
            self._die()
        return super().step(action)


class TextEnv(Env):
    """Speaks: the observation is a text that grows with every step."""

    def __init__(self) -> None:
        self.observation_space = spaces.Text(min_length=0, max_length=1000)
        self.action_space = spaces.Text(min_length=0, max_length=10)
        self.text = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.text = "start"
        return self.text, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.text += action
        return self.text, float(len(action)), len(self.text) > 20, False, {}


class AnythingSpace(spaces.Space[Any]):
    """A custom space that knows nothing about batching."""

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return f"item {self.np_random.integers(100)}"

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnythingSpace)

    __hash__ = None  # type: ignore[assignment]


def counting(length: int = 3, rich: bool = True) -> Maker:
    return functools.partial(CountingEnv, length, rich)


def registered(env_id: str, **keywords: Any) -> Maker:
    return functools.partial(gymnasium.make, env_id, **keywords)


class WalkingEnv(Env):
    """Walks at random, by its own random numbers; where it begins depends on seed and options, when it ends on the walk."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1000, 1000, (3,), np.float64)
        self.action_space = spaces.Discrete(3)
        self.is_over = True

    def _observe(self) -> tuple[Any, dict[str, Any]]:
        info = {"steps": self.steps} if self.steps % 2 else {}
        return np.array([self.position, self.start, self.steps], np.float64), info

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.start = float((options or {}).get("from", -1))
        self.position, self.steps, self.is_over = self.np_random.normal(), 0, False
        return self._observe()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.position += float(self.np_random.normal()) + float(action) - 1
        observation, info = self._observe()
        terminated, truncated = abs(self.position) > 3, self.steps >= 6
        self.is_over = terminated or truncated
        return observation, self.position, terminated, truncated, info


class SilentEnv(WalkingEnv):
    """Has no infos, so that its steps need no message."""

    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], {}
