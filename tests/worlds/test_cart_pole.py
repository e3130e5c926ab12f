"""CartPole has Gymnasium's rules, whatever its random numbers are."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv as Original
from gymnasium.utils.env_checker import check_env

import shoal
from shoal.envs.cart_pole import STEEPEST, CartPoleEnv

NAMES = ("x", "x_speed", "angle", "angle_speed")


@pytest.mark.parametrize("sutton_barto_reward", [False, True])
@pytest.mark.filterwarnings("ignore:.*already returned terminated.*:UserWarning")
def test_the_same_pushes_lead_to_the_same_states_rewards_and_ends(sutton_barto_reward: bool) -> None:
    """Cosines of different libraries may differ in the last bit; a wrong rule would differ in the first ones."""
    ours, original = CartPoleEnv(sutton_barto_reward=sutton_barto_reward), cast("Any", Original(sutton_barto_reward))
    assert ours.observation_space == original.observation_space
    assert ours.action_space == original.action_space
    random, num_ended = np.random.default_rng(0), 0
    for episode in range(40):
        ours.reset(seed=episode)
        original.reset()
        original.state = np.array([ours.row[name] for name in NAMES])
        has_ended = False
        for _ in range(200):
            action = int(random.integers(2)) if episode % 4 else int(original.state[2] + original.state[3] > 0)
            found, expected = ours.step(action), original.step(action)
            np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-7)
            assert found[1:3] == expected[1:3]
            if has_ended:
                break  # what is said to a step too many is the same, too
            has_ended = found[2]
        num_ended += has_ended
    assert num_ended >= 30


def test_episodes_begin_nearly_at_rest_and_all_differently() -> None:
    with shoal.make("shoal/CartPole-v0", 1000, backend="serial") as envs:
        observation, info = envs.reset(seed=3)
    assert info == {}
    assert np.abs(observation).max() <= 0.05
    assert np.abs(observation).max() > 0.0495
    # Five standard errors of the mean of a thousand uniform numbers.
    assert (np.abs(observation.mean(axis=0)) < 5 * 0.1 / np.sqrt(12 * 1000)).all()
    assert len(np.unique(observation)) > 3990


def test_a_pole_that_stays_up_is_truncated_after_500_steps() -> None:
    with shoal.make("shoal/CartPole-v0", 8, backend="serial") as envs:
        observation, _ = envs.reset(seed=0)
        for _ in range(499):
            lean = observation @ np.array([0.1, 0.3, 1.0, 0.6], np.float32)
            observation, reward, terminated, truncated, _ = envs.step((lean > 0).astype(np.int64))
            assert not terminated.any()
            assert not truncated.any()
            assert (reward == 1.0).all()
        assert envs.step(np.zeros(8, np.int64))[3].all()


@pytest.mark.filterwarnings("ignore:.*infinity. This is probably too (low|high).*:UserWarning")  # as Gymnasium's own
def test_a_single_one_is_an_environment_as_gymnasium_wants_it() -> None:
    check_env(CartPoleEnv(render_mode="rgb_array"), skip_render_check=True)


def test_a_picture_shows_the_cart_and_how_the_pole_leans() -> None:
    env = CartPoleEnv(render_mode="rgb_array")
    env.reset(seed=0)

    def columns_of_the_pole(x: float, angle: float) -> np.ndarray:
        env.row.x, env.row.angle = x, angle
        pole = (env.render()[:140] == (214, 140, 60)).all(axis=-1)  # above the cart
        return np.flatnonzero(pole.any(axis=0))

    upright = columns_of_the_pole(0.0, 0.0)
    assert upright.mean() == pytest.approx(150, abs=1)
    assert len(upright) == 7
    assert columns_of_the_pole(1.2, 0.0).mean() == pytest.approx(225, abs=1)
    leaning = columns_of_the_pole(0.0, STEEPEST)
    assert leaning.max() > upright.max() + 5
    assert leaning.min() >= upright.min()
