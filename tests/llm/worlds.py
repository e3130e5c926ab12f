"""Worlds that users might register, good ones and bad ones; and configs that ask for them."""

from __future__ import annotations

import copy
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.llm import REGISTERED_ENV_CONFIGS, REGISTERED_ENVS


@dataclass
class CounterConfig:
    """Of a world in RAGEN's style."""

    target: int = 3
    trouble: str = ""
    """What happens: ``<when>:<what>``, when being make, reset or step, in members whose seed is odd."""
    seconds: float = 0.0
    tells_pid: bool = False
    action_lookup: dict[int, str] = field(default_factory=lambda: {1: "Add", 2: "Take", 3: "Break"})


class Counter:
    """Count up to the target. ``reset`` takes seed and mode, ``step`` gives four values."""

    def __init__(self, config: CounterConfig) -> None:
        self.config = config
        self.count, self.is_odd, self.mode = 0, True, ""
        self._trouble("make")

    def _trouble(self, when: str) -> None:
        kind, _, what = self.config.trouble.partition(":")
        if kind != when or not self.is_odd:
            return
        if what == "raise":
            raise RuntimeError(f"no luck in {when}")
        if what == "exit":
            raise SystemExit(3)
        if what == "hang":
            time.sleep(600)
        if what == "die":
            os.kill(os.getpid(), signal.SIGKILL)

    def reset(self, seed: int | None = None, mode: str | None = None) -> str:
        self.is_odd = bool((seed or 0) % 2)
        self.mode = str(mode)
        self._trouble("reset")
        self.count = (seed or 0) % 2
        return self.render()

    def step(self, action: int) -> tuple[str, float, bool, dict[str, Any]]:
        if self.config.seconds:
            time.sleep(self.config.seconds)
        if action == 3:
            self._trouble("step")
        self.count += 1 if action == 1 else -1
        done = self.count == self.config.target
        info = {"success": done, "action_is_valid": True, "count": np.float32(self.count)}
        if self.config.tells_pid:
            info["pid"] = os.getpid()
        return self.render(), float(done), done, info

    def render(self) -> str:
        return f"{self.mode}: {self.count} of {self.config.target}"

    def close(self) -> None:
        pass


class Painter:
    """Shows pictures; Gymnasium's style, with no config class."""

    action_lookup = {0: "Dark", 1: "Bright"}
    render_mode = "rgb_array"

    def __init__(self, side: int = 4, pictures: int = 1) -> None:
        self.side, self.pictures, self.shade = side, pictures, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.shade = (seed or 0) % 200
        return self.render(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.shade += 10 * action
        return self.render(), 0.5, False, self.shade > 220, {"shade": self.shade, "name": "grey"}

    def render(self) -> Any:
        picture = np.full((self.side, self.side, 3), self.shade, np.uint8)
        return picture if self.pictures == 1 else [picture] * self.pictures


class Salted:
    """Draws on everything that differs between processes and ought not to matter."""

    def __init__(self) -> None:
        self.number = 0.0

    def reset(self, seed: int | None = None) -> str:
        self.number = random.random()
        return self.render()

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        return self.render(), 0.0, False, {}

    def render(self) -> str:
        return f"{self.number}"


class Chatty:
    """Takes any text, and tells what workers cannot send."""

    def reset(self, seed: int | None = None) -> str:
        return "say something"

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        info: dict[str, Any] = {"lock": __import__("threading").Lock()} if action == "lock" else {"said": action}
        return action, 1.0, action == "bye", info

    def render(self) -> str:
        return "say something"


@contextmanager
def registered() -> Iterator[None]:
    """All of these, as long as the block lasts."""
    worlds: dict[str, Any] = {"counter": Counter, "painter": Painter, "salted": Salted, "chatty": Chatty}
    for name, world in worlds.items():
        REGISTERED_ENVS[name] = world
    REGISTERED_ENV_CONFIGS["counter"] = CounterConfig
    try:
        yield
    finally:
        del REGISTERED_ENV_CONFIGS["counter"]
        for name in worlds:
            del REGISTERED_ENVS[name]


BUILT_IN: dict[str, dict[str, Any]] = {
    "Sokoban": {"env_type": "sokoban", "env_config": {"num_boxes": 1, "search_depth": 20}},
    "Lake": {"env_type": "frozen_lake", "env_config": {"size": 4}},
    "Bandit": {"env_type": "bandit"},
    "Countdown": {"env_type": "countdown"},
    "Shop": {"env_type": "webshop", "env_config": {"num_products": 200}},
    "Maths": {"env_type": "metamathqa", "max_actions_per_traj": 2},
}


def config_of(
    *tags: str,
    groups: int = 2,
    size: int = 2,
    custom: dict[str, Any] | None = None,
    seed: dict[str, int] | None = None,
    **es_manager: Any,
) -> dict[str, Any]:
    """A config with so many groups of each tag."""
    section = {
        "env_groups": groups * len(tags),
        "group_size": size,
        "env_configs": {"tags": list(tags), "n_groups": [groups] * len(tags)},
    }
    config: dict[str, Any] = {
        "es_manager": {"max_workers": 2, **es_manager, "train": section, "val": section},
        "custom_envs": {**copy.deepcopy(BUILT_IN), "Counter": {"env_type": "counter"}, **(custom or {})},
    }
    return config if seed is None else {**config, "seed": seed}


def inputs_of(caches: list[dict[str, Any]], *actions: Any) -> list[dict[str, Any]]:
    """The same answer for all of these."""
    text = f"<answer>{' || '.join(map(str, actions))}</answer>"
    return [
        {"env_id": cache["env_id"], "actions": list(actions), "llm_response": text, "llm_raw_response": text}
        for cache in caches
    ]
