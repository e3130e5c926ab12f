"""What a scripted environment does: returns, step after step, what its script says, and writes down what it was given."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from shoal.vector.errors import ConfigurationError
from shoal.vector.messages import Reset


class Scripted(NamedTuple):
    """What one environment returns from a step; from a reset, its observation and info."""

    observation: Any = None
    """``None`` for zeros, or what comes closest to them in the space."""
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] | None = None


class Request(NamedTuple):
    """What a scripted environment is asked for."""

    env_index: int
    episode: int
    """How many episodes it has begun before this one."""
    step: int
    """Which step of the episode, counted from 1; 0 for the reset."""
    action: Any = None
    seed: int | None = None
    options: dict[str, Any] | None = None


Reply = Scripted | BaseException
"""What a script says: something to return, or something to raise."""
Script = Callable[[Request], Reply] | Sequence[Reply | Sequence[Reply]]
"""A function; or one element for each step of an environment, which may be a list with one for each environment."""


def script_of(script: Script | None, name: str, num_envs: int) -> Callable[[Request, int], Reply]:
    """A script as a function of the request, and of how many requests of this kind the environment has had before."""
    if script is None:
        return lambda request, number: Scripted()
    if callable(script):
        function = script
        return lambda request, number: _checked(function(request), name)
    if isinstance(script, str | bytes) or not isinstance(script, Sequence):
        raise ConfigurationError(f"{name} must be a function or a list, got {script!r}")
    rows = [_row(element, f"{name}[{number}]", num_envs) for number, element in enumerate(script)]

    def reply(request: Request, number: int) -> Reply:
        if number >= len(rows):
            raise IndexError(
                f"the list {name} has {len(rows)} elements, and environment {request.env_index} has asked for "
                f"number {number + 1}"
            )
        return rows[number][request.env_index]

    return reply


def _row(element: Any, name: str, num_envs: int) -> list[Reply]:
    if not isinstance(element, Sequence) or isinstance(element, Scripted | str | bytes):
        return [_checked(element, name, ConfigurationError)] * num_envs
    if len(element) != num_envs:
        raise ConfigurationError(f"{name} has {len(element)} elements for {num_envs} environments")
    return [_checked(one, f"{name}[{env}]", ConfigurationError) for env, one in enumerate(element)]


def _checked(reply: Any, name: str, error: type[Exception] = TypeError) -> Reply:
    if isinstance(reply, Scripted | BaseException):
        return reply
    raise error(f"{name} must give a Scripted or an exception, got {reply!r}")


@dataclass
class Log:
    """What the environments of a mock were given."""

    actions: list[list[Any]]
    """For each environment, in order. Actions that an autoreset ignored are not there."""
    resets: list[Reset] = field(default_factory=list)
    """In order, autoresets too: environment, seed and options."""


class ScriptedEnv(gymnasium.Env[Any, Any]):
    """An environment without a world."""

    def __init__(
        self,
        env_index: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        script: Callable[[Request, int], Reply],
        starts: Callable[[Request, int], Reply],
        log: Log,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._index, self._script, self._starts, self._log = env_index, script, starts, log
        self._resets = self._steps = self._step_of_episode = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """What ``starts`` says."""
        super().reset(seed=seed)
        self._log.resets.append(Reset(self._index, seed, options))
        self._step_of_episode = 0
        self._resets += 1
        request = Request(self._index, self._resets - 1, 0, None, seed, options)
        scripted = self._obey(self._starts(request, self._resets - 1))
        return self._observation_of(scripted), dict(scripted.info or {})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """What ``script`` says."""
        self._log.actions[self._index].append(copy.deepcopy(action))
        self._step_of_episode += 1
        self._steps += 1
        request = Request(self._index, self._resets - 1, self._step_of_episode, action)
        scripted = self._obey(self._script(request, self._steps - 1))
        _, reward, terminated, truncated, info = scripted
        return self._observation_of(scripted), reward, terminated, truncated, dict(info or {})

    def render(self) -> None:
        """There is nothing to see."""

    def _obey(self, reply: Reply) -> Scripted:
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def _observation_of(self, scripted: Scripted) -> Any:
        return blank(self.observation_space) if scripted.observation is None else scripted.observation


def blank(space: spaces.Space[Any]) -> Any:
    """Zeros, or what comes closest to them in the space; something of the space if it knows no zeros."""
    if isinstance(space, spaces.Dict):
        return {key: blank(part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(blank(part) for part in space.spaces)
    if isinstance(space, spaces.Box):
        return np.clip(np.zeros(space.shape), space.low, space.high).astype(space.dtype)
    if isinstance(space, spaces.Discrete):
        return space.start
    if isinstance(space, spaces.MultiDiscrete):
        return space.start.copy()
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape, space.dtype)
    space = copy.deepcopy(space)
    space.seed(0)
    return space.sample()
