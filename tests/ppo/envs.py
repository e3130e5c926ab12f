"""Small tasks whose best return is known."""

from __future__ import annotations

import threading
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Aim(gymnasium.Env[Any, Any]):
    """Continuous: say the number that is shown. A return of 0 is the best."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-2, 2, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = -abs(float(action[0]) - float(self._shown[0]))
        self._steps += 1
        return self._look(), reward, False, self._steps >= 20, {}

    def _look(self) -> Any:
        self._shown = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self._shown


class Recall(gymnasium.Env[Any, Any]):
    """Memory: a number is shown once, and asked for three steps later. A return of 1 is the best, 0.5 is chance."""

    observation_space = spaces.Box(0, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps, self._number = 0, int(self.np_random.integers(2))
        return np.array([self._number == 0, self._number == 1, 0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        is_asked = self._steps == 3
        if self._steps == 4:
            return np.zeros(3, np.float32), float(action == self._number), True, False, {}
        return np.array([0, 0, is_asked], np.float32), 0.0, False, False, {}


class Spot(gymnasium.Env[Any, Any]):
    """Picture: a bright square is on the left or on the right; say which. A return of 10 is the best, 5 is chance."""

    observation_space = spaces.Box(0, 255, (16, 16, 1), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._draw(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action == self._side)
        self._steps += 1
        return self._draw(), reward, False, self._steps >= 10, {}

    def _draw(self) -> Any:
        self._side = int(self.np_random.integers(2))
        picture = self.np_random.integers(0, 60, (16, 16, 1), dtype=np.uint8)
        row, column = int(self.np_random.integers(12)), int(self.np_random.integers(4)) + 8 * self._side
        picture[row : row + 4, column : column + 4] = 255
        return picture


class Masked(gymnasium.Env[Any, Any]):
    """Of five actions only two are possible in a step, as the info says; another one is an error."""

    observation_space = spaces.Box(0, 1, (5,), np.float32)
    action_space = spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._look()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self._mask[action]:
            raise ValueError(f"action {action} is not possible")
        reward = float(action == np.flatnonzero(self._mask)[0])
        self._steps += 1
        observation, info = self._look()
        return observation, reward, self._steps >= 10, False, info

    def _look(self) -> tuple[Any, dict[str, Any]]:
        self._mask = np.zeros(5, np.int8)
        self._mask[self.np_random.choice(5, 2, replace=False)] = 1
        return self._mask.astype(np.float32), {"action_mask": self._mask}


class Several(gymnasium.Env[Any, Any]):
    """Several choices at once, and a Dict to look at: repeat what is shown. A return of 20 is the best."""

    observation_space = spaces.Dict({"left": spaces.Discrete(3), "right": spaces.MultiBinary(2)})
    action_space = spaces.MultiDiscrete([3, 2, 2])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        wanted = [self._shown["left"], *self._shown["right"].tolist()]
        reward = float(np.mean([one == other for one, other in zip(action, wanted, strict=True)]))
        self._steps += 1
        return self._look(), reward, False, self._steps >= 20, {}

    def _look(self) -> Any:
        self._shown: dict[str, Any] = {
            "left": np.int64(self.np_random.integers(3)),
            "right": self.np_random.integers(0, 2, 2, dtype=np.int8),
        }
        return self._shown


class Stubborn(Aim):
    """Cannot be pickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
