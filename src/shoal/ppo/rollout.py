"""Collecting experience: the policy acts in all environments for some steps.

An episode that ends at step ``t`` looks like this (Gymnasium's NEXT_STEP)::

    step          t - 1        t            t + 1         t + 2
    observation   ...          ...          the last      the first of the next episode
    reward        ...          the last     none          ...
    is_valid      yes          yes          no: a reset   yes

So the observation after a step is always the one that the step led to, also at the end of an episode that was cut off.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from shoal.ppo.acting import Policy, TorchPolicy
from shoal.ppo.heads import Head
from shoal.ppo.normalising import ObservationScale
from shoal.ppo.observing import Encoder
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array
from shoal.vector.parallel_env import ParallelEnv

REMEMBERED_EPISODES = 100


class Episode(NamedTuple):
    """One that is complete."""

    total: float
    length: int


@dataclass
class Rollout:
    """What was seen and done: arrays of (steps, environments), observations one longer."""

    observations: Array
    """As encoded, neither shifted nor scaled."""
    actions: Array
    rewards: Array
    terminated: Array
    truncated: Array
    is_valid: Array
    """Whether a step was one, and not a reset."""
    begins: Array
    """Whether an observation is the first of an episode."""
    masks: Array | None
    """Which actions were possible."""
    first_states: torch.Tensor | None
    """Of the memory, before the first step."""
    episodes: list[Episode] = field(default_factory=list)
    """Those that were completed, in the order of steps and environments."""
    environment_seconds: float = 0.0
    policy_seconds: float = 0.0

    @property
    def num_steps(self) -> int:
        """Of single environments, without resets."""
        return int(np.count_nonzero(self.is_valid))


class Collector:
    """Environments, and where they are."""

    def __init__(self, envs: ParallelEnv, encoder: Encoder, head: Head, random: np.random.Generator) -> None:
        self.envs, self._encoder, self._head, self.random = envs, encoder, head, random
        self.returns, self.lengths = np.zeros(envs.num_envs), np.zeros(envs.num_envs, np.int64)
        self.latest: deque[Episode] = deque(maxlen=REMEMBERED_EPISODES)
        self._masks: Array | None = None

    def begin(self, seed: int) -> None:
        """Begin an episode in every environment."""
        observations, info = self.envs.reset(seed=seed)
        self.go_on_from(observations, np.zeros(self.envs.num_envs, np.bool_), np.ones(self.envs.num_envs, np.bool_))
        self._masks = self._masks_of(info)

    def go_on_from(self, observations: Any, is_due: Array, begins: Array) -> None:
        """Environments are here."""
        self.observations = self._encoder(observations)
        self.is_due, self.begins = is_due, begins

    def collect(
        self, policy: Policy, num_steps: int, scale: ObservationScale | None, episodes_wanted: int | None
    ) -> Rollout:
        """Act for so many steps; stop when so many episodes are complete."""
        clock = time.perf_counter
        if isinstance(policy, TorchPolicy):
            policy.begin(self.begins)
        rollout = self._empty(num_steps, policy)
        rollout.observations[0], rollout.begins[0] = self.observations, self.begins
        step = 0
        for step in range(num_steps):
            begin = clock()
            seen = self.observations if scale is None else scale(self.observations)
            actions = self._head.draw(policy.outputs(seen), policy.deviation, self.random, self._masks)
            given = self._head.for_envs(actions)
            acted = clock()
            observations, rewards, terminated, truncated, info = self.envs.step(given)
            stepped = clock()
            rollout.policy_seconds += acted - begin
            rollout.environment_seconds += stepped - acted
            rollout.actions[step], rollout.rewards[step] = actions, rewards
            rollout.terminated[step], rollout.truncated[step] = terminated, truncated
            rollout.is_valid[step] = ~self.is_due
            if rollout.masks is not None and self._masks is not None:
                rollout.masks[step] = self._masks
            self._masks = self._masks_of(info)
            self.go_on_from(observations, terminated | truncated, self.is_due)
            rollout.observations[step + 1], rollout.begins[step + 1] = self.observations, self.begins
            policy.begin(self.begins)
            self._count(rollout, rewards, rollout.is_valid[step], episodes_wanted)
            if episodes_wanted is not None and len(rollout.episodes) >= episodes_wanted:
                break
        return _shortened(rollout, step + 1)

    def _count(self, rollout: Rollout, rewards: Array, is_valid: Array, episodes_wanted: int | None) -> None:
        """Add up rewards, and note down which episodes are complete."""
        self.returns += rewards
        self.lengths += is_valid
        for number in np.flatnonzero(self.is_due).tolist():
            if episodes_wanted is None or len(rollout.episodes) < episodes_wanted:
                episode = Episode(float(self.returns[number]), int(self.lengths[number]))
                rollout.episodes.append(episode)
                self.latest.append(episode)
            self.returns[number], self.lengths[number] = 0.0, 0

    def _empty(self, steps: int, policy: Policy) -> Rollout:
        num_envs = self.envs.num_envs
        return Rollout(
            observations=np.empty((steps + 1, num_envs, *self._encoder.shape), self._encoder.dtype),
            actions=np.empty((steps, num_envs, self._head.width), self._head.dtype),
            rewards=np.empty((steps, num_envs)),
            terminated=np.empty((steps, num_envs), np.bool_),
            truncated=np.empty((steps, num_envs), np.bool_),
            is_valid=np.empty((steps, num_envs), np.bool_),
            begins=np.empty((steps + 1, num_envs), np.bool_),
            masks=None if self._masks is None else np.ones((steps, *self._masks.shape), np.bool_),
            first_states=policy.states if isinstance(policy, TorchPolicy) else None,
        )

    def _masks_of(self, info: dict[str, Any]) -> Array | None:
        """Which actions are possible, where environments say so in ``info["action_mask"]``."""
        masks = info.get("action_mask")
        if masks is None:
            return None
        masks = np.asarray(masks).astype(np.bool_).reshape(self.envs.num_envs, -1)
        if masks.shape[1] != self._head.num_outputs:
            raise ConfigurationError(
                f"info['action_mask'] has {masks.shape[1]} entries for each environment, but there are "
                f"{self._head.num_outputs} actions to choose from"
            )
        # Who says nothing is being reset, and whatever it is given is ignored.
        masks[~masks.any(axis=1)] = True
        return masks


def _shortened(rollout: Rollout, steps: int) -> Rollout:
    if steps == len(rollout.rewards):
        return rollout
    for name in ("actions", "rewards", "terminated", "truncated", "is_valid"):
        setattr(rollout, name, getattr(rollout, name)[:steps])
    rollout.observations, rollout.begins = rollout.observations[: steps + 1], rollout.begins[: steps + 1]
    if rollout.masks is not None:
        rollout.masks = rollout.masks[:steps]
    return rollout
