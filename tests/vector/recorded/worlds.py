"""Small worlds that do the same on every machine: whole numbers, sums of doubles, and uniform numbers of PCG64 alone."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

Result = tuple[Any, float, bool, bool, dict[str, Any]]


class World(gymnasium.Env[Any, Any]):
    """Draws a number in each step, and ends an episode, in one way or the other, after a number of steps that it has drawn."""

    kind: ClassVar[str]

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at = fails_at
        self.label = "plain"
        self.episodes = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.total = int((options or {}).get("from", 0))
        self.length = int(self.np_random.integers(2, 7))
        self.ends_well = bool(self.np_random.integers(2))
        self.count = 0
        self.episodes += 1
        self.drawn = 0.0
        return self.observe(), self.inform()

    def step(self, action: Any) -> Result:
        self.count += 1
        if self.fails_at == self.count and self.episodes == 1:
            raise LookupError(f"step {self.count} is missing")
        self.total += self.value_of(action)
        self.drawn = float(self.np_random.random())
        is_over = self.count >= self.length
        terminated, truncated = is_over and self.ends_well, is_over and not self.ends_well
        return self.observe(), self.total + self.drawn, terminated, truncated, self.inform()

    def describe(self, prefix: str = "") -> str:
        """A method to be called."""
        return f"{prefix}{self.label} {self.episodes} {self.count} {self.total}"

    def observe(self) -> Any:
        raise NotImplementedError

    def inform(self) -> dict[str, Any]:
        raise NotImplementedError

    def value_of(self, action: Any) -> int:
        raise NotImplementedError

    @staticmethod
    def action(number: int) -> Any:
        """An action for each number."""
        raise NotImplementedError


class ArrayWorld(World):
    """Arrays, and infos of every sort in some of the steps."""

    kind = "array"

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__(fails_at)
        self.observation_space = spaces.Box(-1e9, 1e9, (3,), np.float64)
        self.action_space = spaces.Discrete(4)

    def observe(self) -> Any:
        return np.array([self.total, self.count, self.drawn], np.float64)

    def inform(self) -> dict[str, Any]:
        if self.count % 3 == 1:
            return {}
        info: dict[str, Any] = {"count": self.count, "drawn": self.drawn, "name": f"{self.label}{self.total}"}
        if self.count % 2:
            info |= {"where": np.arange(self.count), "more": {"is_high": self.total > 5, "parts": [self.total]}}
        return info

    def value_of(self, action: Any) -> int:
        return int(action)

    @staticmethod
    def action(number: int) -> Any:
        return np.int64(number % 4)


class NestedWorld(World):
    """A dictionary with arrays, a tuple and a text; actions are dictionaries."""

    kind = "nested"

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__(fails_at)
        pair = spaces.Tuple((spaces.Discrete(10), spaces.MultiBinary(4)))
        self.observation_space = spaces.Dict(
            {"grid": spaces.Box(0, 255, (2, 3), np.uint8), "pair": pair, "said": spaces.Text(200, min_length=0)}
        )
        self.action_space = spaces.Dict({"move": spaces.Discrete(3), "push": spaces.Box(-8, 8, (2,), np.float32)})

    def observe(self) -> Any:
        grid = ((np.arange(6) + self.total) % 256).astype(np.uint8).reshape(2, 3)
        bits = np.array([self.count >> place & 1 for place in range(4)], np.int8)
        return {"grid": grid, "pair": (np.int64(self.total % 10), bits), "said": "moved" * self.count}

    def inform(self) -> dict[str, Any]:
        return {"ends_well": self.ends_well} if self.count >= self.length else {}

    def value_of(self, action: Any) -> int:
        return int(action["move"]) + int(action["push"].sum())

    @staticmethod
    def action(number: int) -> Any:
        return {"move": np.int64(number % 3), "push": np.array([number % 5, -(number % 2)], np.float32)}


class TalkingWorld(World):
    """Texts, seen and given."""

    kind = "talking"

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__(fails_at)
        self.observation_space = spaces.Text(5000, min_length=0)
        self.action_space = spaces.Text(40)

    def observe(self) -> Any:
        return f"{self.label} {self.total} " + "word " * (self.total % 400)

    def inform(self) -> dict[str, Any]:
        return {"heard": self.count} if self.count else {"task": "talk"}

    def value_of(self, action: Any) -> int:
        return sum(map(ord, action))

    @staticmethod
    def action(number: int) -> Any:
        return "go" * (1 + number % 3) + str(number)


WORLDS: tuple[type[World], ...] = (ArrayWorld, NestedWorld, TalkingWorld)
