"""Environments whose episodes have at least so many steps. Here, where a worker can import them without importing much."""

from __future__ import annotations

from typing import Any

from tests.envs import WalkingEnv


class RamblingEnv(WalkingEnv):
    """Walks at random for four to six steps; depends on nothing but its random numbers."""

    length = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        result = super().reset(seed=seed, options=options)
        self.length = int(self.np_random.integers(4, 7))
        return result

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, _, _, info = super().step(action)
        return observation, reward, False, self.steps >= self.length, info


class LongEnv(RamblingEnv):
    """Walks for some more steps."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        result = super().reset(seed=seed, options=options)
        self.length += 16
        return result


class AgeingEnv(LongEnv):
    """Depends on all its episodes."""

    start_of_life = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.start_of_life += 1
        return super().reset(seed=seed, options={"from": self.start_of_life})
