"""What is kept, and what is drawn of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.meta.buffers import SequenceBuffer, TransitionBuffer
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array


def rollout(number: int, length: int) -> tuple[Array, ...]:
    """A rollout in which every number says where it is from: 100 times the rollout, plus the step."""
    steps = (100 * number + np.arange(length + 1, dtype=np.float32))[:, None]
    return steps[:-1], steps[:-1] + 0.25, steps[:-1] + 0.5, np.eye(length, 1, 1 - length, dtype=np.float32), steps[1:]


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    sequence_length=st.integers(1, 9),
    max_steps=st.integers(10, 40),
    seed=st.integers(0, 100),
)
def test_sequences_are_of_one_rollout_and_masked_behind_its_end(
    lengths: list[int], sequence_length: int, max_steps: int, seed: int
) -> None:
    buffer = SequenceBuffer(max_steps, 1, 1, sequence_length)
    for number, length in enumerate(lengths):
        buffer.add_episode(*rollout(number, length))
    sample = buffer.random_batch(50, np.random.default_rng(seed))
    assert sample.mask[0].all()
    assert len(sample.mask) <= sequence_length
    for column in range(50):
        mask = sample.mask[:, column, 0].astype(bool)
        count = int(mask.sum())
        assert mask[:count].all()
        first = sample.observations[0, column, 0]
        number, step = divmod(int(first), 100)
        length = lengths[number]
        # A sequence is only short if its rollout is.
        assert count == min(sequence_length, length)
        assert step + count <= length
        expected = first + np.arange(count + 1)
        np.testing.assert_array_equal(sample.observations[: count + 1, column, 0], expected)
        np.testing.assert_array_equal(sample.actions[:count, column, 0], expected[:-1] + 0.25)
        np.testing.assert_array_equal(sample.rewards[:count, column, 0], expected[:-1] + 0.5)
        is_last = np.arange(step, step + count) == length - 1
        np.testing.assert_array_equal(sample.terminals[:count, column, 0].astype(bool), is_last)


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12), max_steps=st.integers(10, 40))
def test_only_what_is_newest_is_kept(lengths: list[int], max_steps: int) -> None:
    buffer = SequenceBuffer(max_steps, 1, 1, 1)
    for number, length in enumerate(lengths):
        buffer.add_episode(*rollout(number, length))
    rows = [100 * number + step for number, length in enumerate(lengths) for step in [*range(length), -1]][-max_steps:]
    wanted = {row for row in rows if row % 100 != 99 and row >= 0}
    drawn = buffer.random_batch(3000, np.random.default_rng(0)).observations[0, :, 0]
    assert set(drawn.astype(int).tolist()) == wanted
    assert buffer.num_steps == len(wanted)


def test_every_start_is_as_likely_as_another() -> None:
    buffer = SequenceBuffer(100, 1, 1, 3)
    buffer.add_episode(*rollout(0, 2))
    buffer.add_episode(*rollout(1, 6))
    drawn = buffer.random_batch(5000, np.random.default_rng(0)).observations[0, :, 0].astype(int)
    starts, counts = np.unique(drawn, return_counts=True)
    assert starts.tolist() == [0, 100, 101, 102, 103]
    assert counts.min() > 850


def test_time_in_which_all_have_ended_is_left_out() -> None:
    buffer = SequenceBuffer(100, 1, 1, 50)
    buffer.add_episode(*rollout(0, 3))
    sample = buffer.random_batch(4, np.random.default_rng(0))
    assert sample.observations.shape == (4, 4, 1)
    assert sample.mask.shape == (3, 4, 1)


def test_a_rollout_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="train.buffer_size must be at least 11"):
        SequenceBuffer(10, 1, 1, 5).add_episode(*rollout(0, 10))


@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6), max_steps=st.integers(2, 40))
def test_transitions_are_kept_with_what_followed(lengths: list[int], max_steps: int) -> None:
    whole, by_step = (TransitionBuffer(max_steps, 1, 1) for _ in range(2))
    for number, length in enumerate(lengths):
        parts = rollout(number, length)
        whole.add_episode(*parts)
        for observation, action, reward, terminal, following in zip(*parts, strict=True):
            by_step.add_sample(observation, action, float(reward[0]), float(terminal[0]), following)
    sample = whole.random_batch(200, np.random.default_rng(0))
    assert sample.observations.shape == (2, 200, 1)
    np.testing.assert_array_equal(sample.observations[0] + 1, sample.observations[1])
    np.testing.assert_array_equal(sample.observations[:1] + 0.25, sample.actions)
    assert sample.mask.all()
    assert_same_transitions(whole.state(), by_step.state())


def assert_same_transitions(one: dict[str, Any], other: dict[str, Any]) -> None:
    """A long rollout may begin at another row; what is kept is the same."""
    assert one["size"] == other["size"]
    assert sorted(one["observations"][:, 0]) == sorted(other["observations"][:, 0])
