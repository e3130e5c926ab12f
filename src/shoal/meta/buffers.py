"""What was seen, to learn from it again and again: single transitions, or whole rollouts.

``add_sample`` takes a transition and ``add_episode`` those of a whole rollout, with the names of pomdp-baselines. When a
buffer is full, what is new takes the place of what is oldest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array


class Sample(NamedTuple):
    """Sequences: time comes first, then the sequence. Those of a transition buffer have one step."""

    observations: Array
    """(time + 1, batch, numbers)"""
    actions: Array
    rewards: Array
    terminals: Array
    mask: Array
    """1 where there was a step, 0 behind the end of a rollout. (time, batch, 1)"""


class _Ring:
    """Rows of several arrays. Those that are written last take the place of those that were written first."""

    def __init__(self, num_rows: int, **widths: int) -> None:
        self.num_rows, self.top, self.size = num_rows, 0, 0
        # Memory that is not written yet is not taken from the machine either.
        self.arrays = {name: np.zeros((num_rows, width), np.float32) for name, width in widths.items()}

    def write(self, count: int, **values: Any) -> None:
        """Write so many rows."""
        rows = (self.top + np.arange(count)) % self.num_rows
        for name, value in values.items():
            self.arrays[name][rows] = value
        self.top = int((self.top + count) % self.num_rows)
        self.size = min(self.size + count, self.num_rows)

    def state(self) -> dict[str, Any]:
        """Only what was written."""
        return {"top": self.top, "size": self.size, **{name: array[: self.size] for name, array in self.arrays.items()}}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        if state["size"] > self.num_rows or (state["size"] < self.num_rows and state["top"] != state["size"]):
            raise ConfigurationError(f"a buffer of {state['size']:,} rows does not fit into one of {self.num_rows:,}")
        written, self.top, self.size = self.size, state["top"], state["size"]
        for name, array in self.arrays.items():
            array[: self.size], array[self.size : max(written, self.size)] = state[name], 0


class TransitionBuffer(_Ring):
    """Single steps, each as likely as another."""

    def __init__(self, max_steps: int, observation_size: int, action_size: int) -> None:
        widths = {"observations": observation_size, "actions": action_size, "rewards": 1, "terminals": 1}
        super().__init__(max_steps, **widths, following=observation_size)

    @property
    def num_steps(self) -> int:
        """Those that can be drawn."""
        return self.size

    def add_sample(
        self, observation: Array, action: Array, reward: float, terminal: float, next_observation: Array
    ) -> None:
        """A transition."""
        self.write(
            1, observations=observation, actions=action, rewards=reward, terminals=terminal, following=next_observation
        )

    def add_episode(
        self, observations: Array, actions: Array, rewards: Array, terminals: Array, next_observations: Array
    ) -> None:
        """All transitions of a rollout, in order."""
        kept = slice(max(0, len(rewards) - self.num_rows), None)
        self.write(
            len(rewards[kept]),
            observations=observations[kept],
            actions=actions[kept],
            rewards=rewards[kept],
            terminals=terminals[kept],
            following=next_observations[kept],
        )

    def random_batch(self, batch_size: int, random: np.random.Generator) -> Sample:
        """Transitions, as sequences of one step."""
        rows, arrays = random.integers(self.size, size=batch_size), self.arrays
        observations = np.stack([arrays["observations"][rows], arrays["following"][rows]])
        actions, rewards, terminals = (arrays[name][rows][None] for name in ("actions", "rewards", "terminals"))
        return Sample(observations, actions, rewards, terminals, np.ones((1, batch_size, 1), np.float32))


class SequenceBuffer(_Ring):
    """Whole rollouts, one behind the other, of which sequences are drawn that begin in any step that leaves enough of them.

    ::

        rows        o0 o1 o2 o3 | o0 o1 o2 | ...      a rollout of L steps takes L + 1 rows, the last without an action
        is_step      1  1  1  0    1  1  0
        is_start     1  1  0  0    1  0  0            for sequences of two steps

    A rollout that is shorter than a sequence has one start, its beginning, and what lies behind its end is masked.
    """

    def __init__(self, max_steps: int, observation_size: int, action_size: int, sequence_length: int) -> None:
        self.sequence_length = sequence_length
        widths = {"observations": observation_size, "actions": action_size, "rewards": 1, "terminals": 1}
        super().__init__(max_steps, **widths, is_step=1, is_start=1)
        self._starts: Array | None = None

    @property
    def num_steps(self) -> int:
        """Those that can be drawn."""
        return int(self.arrays["is_step"].sum())

    def add_episode(
        self, observations: Array, actions: Array, rewards: Array, terminals: Array, next_observations: Array
    ) -> None:
        """A rollout."""
        length = len(rewards)
        if length + 1 > self.num_rows:
            raise ConfigurationError(
                f"a rollout of {length:,} steps does not fit into a buffer of {self.num_rows:,}: "
                f"train.buffer_size must be at least {length + 1:,}"
            )
        num_starts = max(1, length - self.sequence_length + 1)
        numbers = np.arange(length + 1)[:, None]
        self.write(
            length + 1,
            observations=np.concatenate([observations, next_observations[-1:]]),
            actions=_with_row(actions),
            rewards=_with_row(rewards),
            terminals=_with_row(terminals),
            is_step=numbers < length,
            is_start=numbers < num_starts,
        )
        # The rollout that was overwritten in part has lost its beginning: what is left of it is as good as any.
        self._starts = None

    def random_batch(self, batch_size: int, random: np.random.Generator) -> Sample:
        """Sequences, each start as likely as another."""
        if self._starts is None:
            self._starts = np.flatnonzero(self.arrays["is_start"][: self.size, 0])
        starts = self._starts[random.integers(len(self._starts), size=batch_size)]
        rows = (starts + np.arange(self.sequence_length + 1)[:, None]) % self.num_rows
        arrays = self.arrays
        mask = np.minimum.accumulate(arrays["is_step"][rows[:-1]], axis=0)
        longest = int(mask.any(axis=(1, 2)).sum())  # nobody needs time in which all have ended
        rows, steps = rows[: longest + 1], rows[:longest]
        actions, rewards, terminals = (arrays[name][steps] for name in ("actions", "rewards", "terminals"))
        return Sample(arrays["observations"][rows], actions, rewards, terminals, mask[:longest])

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        super().load(state)
        self._starts = None


def _with_row(values: Array) -> Array:
    return np.concatenate([values, np.zeros_like(values[:1])])
