"""The wrapper of the challenge, with the interface of the old Gym."""

from __future__ import annotations

from typing import Any


class Results:
    """What a step of the real one leaves behind: much, and not to be sent anywhere."""

    def __init__(self, reward: float) -> None:
        self.reward = reward
        self.action = lambda: None


class Space:
    """As much of one of Gym's as matters."""

    def __init__(self, n: int = 0, shape: tuple[int, ...] = ()) -> None:
        self.n, self.shape = n, shape


class ChallengeWrapper:
    def __init__(self, agent_name: str, env: Any) -> None:
        assert agent_name == "Blue"
        self.env = env
        self.action_space, self.observation_space = Space(145), Space(shape=(52,))

    def reset(self) -> list[int]:
        self.env.reset()
        return self._observation()

    def step(self, action: int) -> tuple[list[int], float, bool, dict[str, Any]]:
        assert type(action) is int
        assert 0 <= action < 145
        reward = self.env.advance(action)
        return self._observation(), reward, False, vars(Results(reward))

    def _observation(self) -> list[int]:
        return [bit for state in self.env.hosts for bit in (state & 1, state >> 1, 0, 0)]
