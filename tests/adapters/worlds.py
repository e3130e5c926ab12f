"""Environments and wrappers for the adapters' tests. Torch-free, so that worker processes can load them quickly."""

from __future__ import annotations

import copy
import functools
import sys
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tests.envs import Env, Maker


class EventfulEnv(Env):
    """Seeded surprises: episodes end in every way, and infos have every kind of value and are not the same every time."""

    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": 12}

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], render_mode: str | None = None
    ) -> None:
        # Copies, because a space has random numbers of its own, which environments must not share.
        self.observation_space, self.action_space = copy.deepcopy(observation_space), copy.deepcopy(action_space)
        self.render_mode = render_mode
        self.label = "plain"
        self.renders = self.count = self.start = 0

    def _observe(self) -> Any:
        observation = self.observation_space.sample()
        # Not the space's type: what is batched has that of the space, and a terminal observation stays as it is.
        return observation.astype(np.float64) if isinstance(self.observation_space, spaces.Box) else observation

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.count, self.start = 0, (options or {}).get("start", 0)
        info = {"seed": seed, "options": options, "luck": self.np_random.random(), "rank": np.int16(self.start)}
        return self._observe(), info if self.np_random.random() < 0.8 else {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        luck = float(self.np_random.random())
        kind = type(action).__name__, str(getattr(action, "dtype", "")), getattr(action, "shape", None)
        info: dict[str, Any] = {"action": np.array(action).tolist(), "kind": kind}
        if luck < 0.5:
            info |= {
                "luck": luck,
                "single": np.float32(luck),
                "deep": {"list": [1, "two", None], "array": np.arange(3)},
            }
        if luck < 0.2:
            info["luck"] = self.count  # not even always of one type
        return self._observe(), luck / 3 + self.start, luck > 0.8, self.count >= 4 or luck > 0.95, info

    def render(self) -> Any:
        self.renders += 1
        return np.full((4, 6, 3), 10 * self.count + self.renders, np.uint8) if self.render_mode == "rgb_array" else None

    def describe(self, prefix: str, *, suffix: str = "") -> str:
        return f"{prefix}{self.label}:{self.count}{suffix}"

    def has_loaded(self, module: str) -> bool:
        return module in sys.modules


class Plain(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Wraps, and that is all."""


class Fancy(Plain):
    """Wraps too."""


class LabelledTwice(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Has an attribute that the environment has too."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.label = "outer"


BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (8, 8, 3), np.uint8)
WORLDS: dict[str, tuple[spaces.Space[Any], spaces.Space[Any]]] = {
    "box": (BOX, spaces.Discrete(4)),
    "image": (IMAGE, spaces.Discrete(2)),
    "discrete": (spaces.Discrete(7), spaces.MultiDiscrete([3, 4])),
    "multi-discrete": (spaces.MultiDiscrete([3, 4]), spaces.Box(-2.0, 2.0, (2,), np.float32)),
    "multi-binary": (spaces.MultiBinary(5), spaces.MultiBinary(3)),
    "dict": (spaces.Dict({"b": BOX, "a": spaces.Discrete(3), "c": IMAGE}), spaces.Discrete(2)),
    "tuple": (spaces.Tuple((BOX, spaces.Discrete(3))), spaces.Discrete(2)),
    "structured actions": (BOX, spaces.Dict({"x": spaces.Discrete(3), "y": spaces.Tuple((BOX, spaces.Text(5)))})),
}


def world(name: str, **keywords: Any) -> Maker:
    return functools.partial(EventfulEnv, *WORLDS[name], **keywords)


def wrapped(env_fn: Maker, *wrappers: Any) -> Env:
    env = env_fn()
    for wrapper in wrappers:
        env = wrapper(env)
    return env
