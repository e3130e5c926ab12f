"""Turns: several actions in one message, carried out where the environment is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from shoal.vector.messages import EnvFn

Turn = Callable[[Any, Any], Any]
"""From an environment and what ``step`` was given for it to the five values of a step."""


@dataclass(frozen=True)
class TurnFactory:
    """A factory whose environment takes turns."""

    env_fn: EnvFn
    turn: Turn

    def __call__(self) -> Any:
        """Make one."""
        return TurnEnv(self.env_fn(), self.turn)

    def __repr__(self) -> str:
        return repr(self.env_fn)


class TurnEnv:
    """An environment of which a step is a turn. Everything else is the environment's."""

    def __init__(self, env: gymnasium.Env[Any, Any], turn: Turn) -> None:
        self._env = env
        self._turn = turn

    def step(self, action: Any) -> Any:
        """Take a turn."""
        return self._turn(self._env, action)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._env, name)


def run_actions(env: Any, actions: Sequence[Any]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    """A turn of several actions, one after the other, until they are done or the episode ends.

    The reward is their sum; the info is the last one's, and its ``"turn"`` has a dictionary for each action that was taken:
    ``action``, ``reward``, ``terminated``, ``truncated`` and ``info``.
    """
    if isinstance(actions, str | bytes) or not isinstance(actions, Sequence | np.ndarray) or not len(actions):
        raise ValueError(f"a turn is a sequence of at least one action, got {actions!r}")
    total, taken = 0.0, []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        total += float(reward)
        taken.append(
            {"action": action, "reward": reward, "terminated": terminated, "truncated": truncated, "info": info}
        )
        if terminated or truncated:
            break
    return observation, total, terminated, truncated, {**info, "turn": taken}
