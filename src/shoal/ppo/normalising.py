"""What has been seen so far, to shift and scale by."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.vector.layout import Array

FARTHEST = 10.0
TINY = 1e-8


class Moments:
    """Mean and variance of everything that was taken in, batch by batch."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean, self.variance, self.count = np.zeros(shape), np.ones(shape), 0.0

    def take(self, batch: Array) -> None:
        """Take in a batch, whose first axis is samples."""
        count = len(batch)
        if not count:
            return
        mean, variance = batch.mean(axis=0, dtype=np.float64), batch.var(axis=0, dtype=np.float64)
        total, difference = self.count + count, mean - self.mean
        if self.count:
            squares = self.variance * self.count + variance * count + difference**2 * self.count * count / total
            self.mean, self.variance = self.mean + difference * count / total, squares / total
        else:
            self.mean, self.variance = mean, variance
        self.count = total

    def state(self) -> dict[str, Any]:
        """Everything, to be saved."""
        return {"mean": self.mean, "variance": self.variance, "count": self.count}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.mean, self.variance, self.count = state["mean"], state["variance"], float(state["count"])


class ObservationScale:
    """Shifts and scales observations. What has been seen counts from the next rollout on, so that one is of a piece."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.moments = Moments(shape)

    def __call__(self, observations: Array) -> Array:
        """As many standard deviations from the mean, at most ten."""
        if not self.moments.count:
            return observations
        scaled = (observations - self.moments.mean) / np.sqrt(self.moments.variance + TINY)
        return np.clip(scaled, -FARTHEST, FARTHEST).astype(np.float32)


class RewardScale:
    """Scales rewards so that discounted returns have deviation 1. Steps that are resets have no return."""

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.moments = Moments(())
        self._gamma, self._returns = gamma, np.zeros(num_envs)

    def __call__(self, rewards: Array, ended: Array, is_valid: Array) -> Array:
        """The rewards of a rollout, (steps, environments), scaled by what has been seen up to its end."""
        returns = np.empty_like(rewards)
        for step in range(len(rewards)):
            self._returns = self._returns * self._gamma + rewards[step]
            returns[step] = self._returns
            self._returns = self._returns * ~ended[step]
        self.moments.take(returns[is_valid])
        return np.clip(rewards / np.sqrt(self.moments.variance + TINY), -FARTHEST, FARTHEST)

    def state(self) -> dict[str, Any]:
        """Everything, to be saved."""
        return {**self.moments.state(), "returns": self._returns}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.moments.load(state)
        self._returns = state["returns"]
