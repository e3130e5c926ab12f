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
from typing import NamedTuple

import numpy as np
import torch

from shoal.ppo.acting import Policy
from shoal.ppo.halves import ALL, Half, in_halves, together
from shoal.ppo.heads import Head
from shoal.ppo.masking import masks_of
from shoal.ppo.normalising import ObservationScale
from shoal.ppo.observing import Encoder
from shoal.runs.report import FULL_MEAN
from shoal.vector.layout import Array
from shoal.vector.parallel_env import ParallelEnv


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


@dataclass
class Turn:
    """What a rollout is collected with."""

    rollout: Rollout
    policy: Policy
    scale: ObservationScale | None
    noise: Array = field(default_factory=lambda: np.empty(0))
    """Random numbers for the actions of one step, of all environments: they do not depend on who acts first."""
    noise_of: int = -1
    """Which step."""


class Collector:
    """Environments, and where they are."""

    def __init__(self, envs: ParallelEnv, encoder: Encoder, head: Head, random: np.random.Generator) -> None:
        self.envs, self._encoder, self._head, self.random = envs, encoder, head, random
        self.returns, self.lengths = np.zeros(envs.num_envs), np.zeros(envs.num_envs, np.int64)
        self.latest: deque[Episode] = deque(maxlen=FULL_MEAN)
        self.masks: Array | None = None
        self._together, self._in_halves = together(envs), in_halves(envs)

    def begin(self, seed: int) -> None:
        """Begin an episode in every environment."""
        observations, info = self.envs.reset(seed=seed)
        num_envs = self.envs.num_envs
        self.go_on_from(self._encoder(observations), np.zeros(num_envs, np.bool_), np.ones(num_envs, np.bool_))
        self.masks = masks_of(info, num_envs, self._head)

    def go_on_from(self, observations: Array, is_due: Array, begins: Array) -> None:
        """Environments are here: what they show, whose episode has ended, whose has just begun."""
        self.observations, self.is_due, self.begins = observations, is_due, begins

    def collect(
        self,
        policy: Policy,
        num_steps: int,
        scale: ObservationScale | None,
        episodes_wanted: int | None,
        is_overlapping: bool = False,
    ) -> Rollout:
        """Act for so many steps; stop when so many episodes are complete.

        The result is the same if the policy acts for one half of the environments while the other half steps.
        """
        policy.begin(self.begins, ALL)
        rollout = self._empty(num_steps, policy)
        rollout.observations[0], rollout.begins[0] = self.observations, self.begins
        halves = self._in_halves if is_overlapping else self._together
        turn = Turn(rollout, policy, scale)
        for half in halves:
            self._act(turn, 0, half)
        for step in range(num_steps):
            # When it could be the last one, nobody goes ahead before it is known what all the others did.
            may_end = step + 1 == num_steps or (
                episodes_wanted is not None and len(rollout.episodes) + self.envs.num_envs >= episodes_wanted
            )
            is_due = np.empty_like(self.is_due)
            for half in halves:
                self._receive(turn, step, half, is_due)
                if not may_end:
                    self._act(turn, step + 1, half)
            self.is_due = is_due
            self._count(rollout, step, episodes_wanted)
            if episodes_wanted is not None and len(rollout.episodes) >= episodes_wanted:
                break
            if may_end and step + 1 < num_steps:
                for half in halves:
                    self._act(turn, step + 1, half)
        self.go_on_from(rollout.observations[step + 1].copy(), self.is_due, rollout.begins[step + 1].copy())
        return _shortened(rollout, step + 1)

    def _act(self, turn: Turn, step: int, half: Half) -> None:
        """Let the policy choose, and the environments begin to step."""
        begin = time.perf_counter()
        rollout, rows = turn.rollout, half.rows
        if turn.noise_of != step:
            turn.noise_of, turn.noise = step, self._head.noise(self.random, self.envs.num_envs)
        seen = rollout.observations[step, rows]
        outputs = turn.policy.outputs(seen if turn.scale is None else turn.scale(seen), rows)
        masks = None if self.masks is None else self.masks[rows]
        actions = self._head.draw(outputs, turn.policy.deviation, turn.noise[rows], masks)
        rollout.actions[step, rows] = actions
        if rollout.masks is not None and masks is not None:
            rollout.masks[step, rows] = masks
        given = self._head.for_envs(actions)
        acted = time.perf_counter()
        half.step_async(given)
        rollout.policy_seconds += acted - begin
        rollout.environment_seconds += time.perf_counter() - acted

    def _receive(self, turn: Turn, step: int, half: Half, is_due: Array) -> None:
        """Wait for the environments, and note down what they did."""
        begin = time.perf_counter()
        rollout, rows = turn.rollout, half.rows
        observations, rewards, terminated, truncated, info = half.step_wait()
        rollout.environment_seconds += time.perf_counter() - begin
        rollout.rewards[step, rows] = rewards
        rollout.terminated[step, rows], rollout.truncated[step, rows] = terminated, truncated
        rollout.is_valid[step, rows] = ~self.is_due[rows]
        rollout.observations[step + 1, rows] = self._encoder(observations)
        rollout.begins[step + 1, rows] = self.is_due[rows]
        is_due[rows] = terminated | truncated
        self._note_masks(turn, masks_of(info, len(rewards), self._head), rows)
        turn.policy.begin(rollout.begins[step + 1, rows], rows)

    def _count(self, rollout: Rollout, step: int, episodes_wanted: int | None) -> None:
        """Add up rewards, and note down which episodes are complete."""
        self.returns += rollout.rewards[step]
        self.lengths += rollout.is_valid[step]
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
            masks=None if self.masks is None else np.ones((steps, *self.masks.shape), np.bool_),
            first_states=policy.first_states(),
        )

    def _note_masks(self, turn: Turn, masks: Array | None, rows: slice) -> None:
        if masks is not None and self.masks is None:
            self.masks = np.ones((self.envs.num_envs, masks.shape[1]), np.bool_)
        if self.masks is not None:
            self.masks[rows] = True if masks is None else masks
            if turn.rollout.masks is None:  # nobody had said anything until now
                turn.rollout.masks = np.ones((len(turn.rollout.rewards), *self.masks.shape), np.bool_)


def _shortened(rollout: Rollout, steps: int) -> Rollout:
    if steps == len(rollout.rewards):
        return rollout
    for name in ("actions", "rewards", "terminated", "truncated", "is_valid"):
        setattr(rollout, name, getattr(rollout, name)[:steps])
    rollout.observations, rollout.begins = rollout.observations[: steps + 1], rollout.begins[: steps + 1]
    if rollout.masks is not None:
        rollout.masks = rollout.masks[:steps]
    return rollout
