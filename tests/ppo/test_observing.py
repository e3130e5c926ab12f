"""What the network is given of an observation."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from shoal.ppo import PPOTrainer
from shoal.ppo.observing import Encoder


class Shades(gymnasium.Env[Any, Any]):
    """Pictures of any type and shape."""

    action_space = spaces.Discrete(2)

    def __init__(self, dtype: str, high: float, shape: tuple[int, ...]) -> None:
        self.observation_space = spaces.Box(0, high, shape, np.dtype(dtype).type)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 1.0, bool(self.np_random.random() < 0.3), False, {}


@pytest.mark.parametrize(
    ("dtype", "high", "shape"),
    [
        ("uint8", 255, (16, 16, 3)),
        ("uint16", 65535, (16, 16, 3)),
        ("int32", 255, (3, 16, 16)),
        ("float16", 1, (16, 16, 3)),
        ("float32", 255, (16, 16, 3)),
        ("float64", 1, (16, 16, 3)),
        ("uint8", 255, (16, 12)),
    ],
)
def test_pictures_of_every_type_can_be_learned_from(dtype: str, high: float, shape: tuple[int, ...]) -> None:
    kwargs = {"dtype": dtype, "high": high, "shape": shape}
    with PPOTrainer(
        env=f"{__name__}:Shades", env_kwargs=kwargs, n_envs=2, total_steps=16, rollout_steps=8, torch_threads=1,
        backend="serial",
    ) as trainer:  # fmt: skip
        assert trainer.encoder.is_image
        trainer.train()
        assert trainer.evaluate(episodes=1).lengths[0] > 0


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(0, 255, np.float32), (0, 255, np.int32), (0, 65535, np.uint16), (-128, 127, np.int8), (-3, 5, np.float64)],
)
def test_pictures_are_scaled_by_their_bounds(low: float, high: float, dtype: Any) -> None:
    space = spaces.Box(low, high, (16, 16, 3), dtype, seed=0)
    encoder = Encoder(space)
    batch = np.stack([space.sample(), np.full(space.shape, low, dtype), np.full(space.shape, high, dtype)])
    found = encoder(batch)
    assert found.dtype == encoder.dtype == np.float32
    assert found.shape[1:] == encoder.shape == (3, 16, 16)
    expected = (np.moveaxis(batch, -1, 1).astype(np.float64) - low) / (high - low)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (found[1] == 0).all()
    assert (found[2] == 1).all()


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 1, np.float32),
        (-1, 1, np.float64),
        (0, 1, np.int32),
        (-np.inf, np.inf, np.float32),
        (0, np.inf, np.float32),
        # as far as the type goes: by these bounds, everything would look the same
        (np.finfo(np.float32).min, np.finfo(np.float32).max, np.float32),
        (np.iinfo(np.int32).min, np.iinfo(np.int32).max, np.int32),
    ],
)
def test_pictures_whose_bounds_are_small_or_say_nothing_are_not_scaled(low: Any, high: Any, dtype: Any) -> None:
    batch = np.random.default_rng(0).integers(0, 2, (2, 3, 16, 16)).astype(dtype)
    found = Encoder(spaces.Box(low, high, (3, 16, 16), dtype))(batch)
    assert found.dtype == np.float32
    assert np.array_equal(found, batch)


def test_bytes_stay_bytes_which_take_a_quarter_of_the_memory() -> None:
    encoder = Encoder(spaces.Box(0, 255, (16, 16, 3), np.uint8))
    batch = np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), np.uint8)
    assert encoder(batch).dtype == encoder.dtype == np.uint8
    assert np.array_equal(encoder(batch), np.moveaxis(batch, -1, 1))
    # An environment that is evaluated by itself may give another type than its space says.
    assert encoder(batch.astype(np.int64)).dtype == np.uint8


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((84, 84, 4), (4, 84, 84)),
        ((4, 84, 84), (4, 84, 84)),
        ((210, 160, 3), (3, 210, 160)),
        ((3, 210, 160), (3, 210, 160)),
        ((3, 64, 64), (3, 64, 64)),
        ((84, 84, 1), (1, 84, 84)),
        ((8, 8, 20), (20, 8, 8)),
        ((20, 8, 8), (20, 8, 8)),
        ((16, 16, 16), (16, 16, 16)),
        ((20, 10, 20), (20, 20, 10)),
    ],
)
def test_channels_are_found_wherever_they_are(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    encoder = Encoder(spaces.Box(0, 255, shape, np.uint8))
    assert encoder.is_image
    assert encoder.shape == expected
    assert encoder(np.zeros((2, *shape), np.uint8)).shape == (2, *expected)


def test_a_grey_picture_has_one_channel() -> None:
    encoder = Encoder(spaces.Box(0, 255, (84, 84), np.uint8))
    assert encoder.is_image
    assert encoder.shape == (1, 84, 84)
    batch = np.random.default_rng(0).integers(0, 256, (2, 84, 84), np.uint8)
    assert np.array_equal(encoder(batch)[:, 0], batch)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (4,), np.uint8),
        spaces.Box(0, 255, (7, 84), np.uint8),  # too narrow to be seen
        spaces.Box(0, 2, (20, 10), np.uint8),  # a board
        spaces.Box(0, 300, (16, 16), np.float32),  # a matrix
        spaces.Box(0, 255, (7, 7, 3), np.uint8),
        spaces.Box(-10, 10, (3,), np.float64),
    ],
    ids=str,
)
def test_what_is_no_picture_is_taken_as_it_is(space: spaces.Box) -> None:
    for one, name in ((space, None), (spaces.Dict({"part": space}), "part")):
        encoder = Encoder(one)  # and nobody is warned
        batch = np.stack([space.sample(), space.sample()])
        found = encoder(batch if name is None else {name: batch})
        assert not encoder.is_image
        assert np.array_equal(found, batch.astype(np.float32).reshape(2, -1))


def test_pictures_inside_a_dictionary_are_scaled_and_their_owner_is_told_once() -> None:
    camera, depth = spaces.Box(0, 255, (16, 16, 3), np.uint8), spaces.Box(0, 100, (1, 16, 16), np.float32)
    grey, speed = spaces.Box(0, 255, (16, 16), np.uint8), spaces.Box(-50, 50, (2,), np.float32)
    space = spaces.Dict({"speed": speed, "eyes": spaces.Tuple([camera, grey]), "depth": depth}, seed=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        encoder = Encoder(space)
    assert len(told) == 1
    assert told[0].filename == __file__
    message = str(told[0].message)
    assert "the observation space['eyes'][0] of shape (16, 16, 3)" in message
    assert "the observation space['eyes'][1] of shape (16, 16)" in message
    assert "the observation space['depth'] of shape (1, 16, 16)" in message
    assert "speed" not in message
    assert "taken as a row of numbers" in message
    assert "a wrapper around the environment" in message
    one = space.sample()
    batch = {
        "speed": one["speed"][None],
        "eyes": (one["eyes"][0][None], one["eyes"][1][None]),
        "depth": one["depth"][None],
    }
    parts = {
        "depth": one["depth"] / np.float32(100),
        "eyes": np.concatenate([(eye / np.float32(255)).ravel() for eye in one["eyes"]]),
        "speed": one["speed"],
    }
    expected = np.concatenate([parts[name].ravel() for name in space.spaces])
    found = encoder(batch)
    assert found.dtype == np.float32
    assert np.array_equal(found, expected[None])


def test_pictures_behind_each_other_are_rows_of_numbers_and_their_owner_is_told() -> None:
    with pytest.warns(RuntimeWarning, match=r"the observation space of shape \(4, 16, 16, 3\): .* a row of numbers"):
        encoder = Encoder(spaces.Box(0, 255, (4, 16, 16, 3), np.uint8))
    assert encoder.shape == (4 * 16 * 16 * 3,)
    assert (encoder(np.full((2, 4, 16, 16, 3), 255, np.uint8)) == 1).all()


def test_choices_are_rows_of_zeros_and_a_one() -> None:
    random = np.random.default_rng(0)
    values = random.integers(-2, 5, 50)
    found = Encoder(spaces.Discrete(7, start=-2))(values)
    assert found.dtype == np.float32
    assert np.array_equal(found, np.eye(7)[values + 2])
    several = spaces.MultiDiscrete(np.array([[3, 1], [4, 2]]), start=np.array([[0, 5], [-1, 0]]), seed=0)
    batch = np.stack([several.sample() for _ in range(50)])
    columns = (batch - several.start).reshape(50, 4)
    expected = np.concatenate([np.eye(count)[columns[:, k]] for k, count in enumerate((3, 1, 4, 2))], axis=1)
    assert np.array_equal(Encoder(several)(batch), expected)
    assert Encoder(several)(batch).dtype == np.float32
    with pytest.raises(IndexError):
        Encoder(spaces.MultiDiscrete([3, 4]))(np.array([[3, 0]]))


@pytest.mark.parametrize("space", [spaces.Discrete(2_000_000), spaces.MultiDiscrete([1_999_990, 10])], ids=str)
def test_many_choices_need_no_table(space: spaces.Space[Any]) -> None:
    """A table of all of them would be 16 TB."""
    encoder = Encoder(space)
    assert encoder.shape == (2_000_000,)
    found = encoder(np.array([5]) if isinstance(space, spaces.Discrete) else np.array([[5, 0]]))
    expected = [5] if isinstance(space, spaces.Discrete) else [5, 1_999_990]
    assert np.flatnonzero(found[0]).tolist() == expected
