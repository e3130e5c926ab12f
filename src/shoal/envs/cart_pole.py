"""CartPole: push a cart to and fro so that the pole on it stays up. ``shoal/CartPole-v0``.

The rules are those of Gymnasium's ``CartPole-v1``: from the same state, the same pushes lead to the same states, rewards and
ends. Only the random numbers in which episodes begin are others, because every row has a stream of its own.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from shoal.envs.chance import uniform
from shoal.envs.world import World
from shoal.envs.world_env import WorldEnv
from shoal.vector.layout import Array

GRAVITY = 9.8
CART_MASS, POLE_MASS = 1.0, 0.1
TOTAL_MASS = CART_MASS + POLE_MASS
HALF_POLE = 0.5
PUSH = 10.0
SECONDS = 0.02
FARTHEST, STEEPEST = 2.4, 12 * 2 * math.pi / 360
FIRST_SPREAD = 0.05

HEIGHT, WIDTH, CART_TOP = 200, 300, 150


class Pay(NamedTuple):
    """The reward while the pole stands, and for the step in which it falls."""

    standing: float
    falling: float


def begin_row(pay: Pay, row: Any, info: Any) -> None:
    """Begin an episode, with everything nearly at rest."""
    row.x = FIRST_SPREAD * (2.0 * uniform(row) - 1.0)
    row.x_speed = FIRST_SPREAD * (2.0 * uniform(row) - 1.0)
    row.angle = FIRST_SPREAD * (2.0 * uniform(row) - 1.0)
    row.angle_speed = FIRST_SPREAD * (2.0 * uniform(row) - 1.0)
    row.has_fallen = False


def step_row(pay: Pay, row: Any, action: int, info: Any) -> tuple[float, bool]:
    """Push to the left (0) or to the right (1), and look where everything is a moment later."""
    push = PUSH if action == 1 else -PUSH
    cosine, sine = math.cos(row.angle), math.sin(row.angle)
    pole = POLE_MASS * HALF_POLE
    shove = (push + pole * (row.angle_speed * row.angle_speed) * sine) / TOTAL_MASS
    angle_pull = (GRAVITY * sine - cosine * shove) / (
        HALF_POLE * (4.0 / 3.0 - POLE_MASS * (cosine * cosine) / TOTAL_MASS)
    )
    x_pull = shove - pole * angle_pull * cosine / TOTAL_MASS
    row.x += SECONDS * row.x_speed
    row.x_speed += SECONDS * x_pull
    row.angle += SECONDS * row.angle_speed
    row.angle_speed += SECONDS * angle_pull
    if abs(row.x) <= FARTHEST and abs(row.angle) <= STEEPEST:
        return pay.standing, False
    reward = 0.0 if row.has_fallen and pay.falling > 0 else pay.falling
    row.has_fallen = True
    return reward, True


def observe_row(pay: Pay, row: Any, observation: Any) -> None:
    """Where the cart and the pole are, and how fast they move."""
    observation[0], observation[1] = row.x, row.x_speed
    observation[2], observation[3] = row.angle, row.angle_speed


class CartPole(World):
    """The world. ``sutton_barto_reward`` is Gymnasium's: nothing while the pole stands, and -1 when it falls."""

    fields = (("x", "f8"), ("x_speed", "f8"), ("angle", "f8"), ("angle_speed", "f8"), ("has_fallen", "?"))
    begin_row, step_row, observe_row = staticmethod(begin_row), staticmethod(step_row), staticmethod(observe_row)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}

    def __init__(self, render_mode: str | None = None, sutton_barto_reward: bool = False) -> None:
        self.render_mode = render_mode
        self.tables = Pay(0.0, -1.0) if sutton_barto_reward else Pay(1.0, 1.0)
        high = np.array([2 * FARTHEST, np.inf, 2 * STEEPEST, np.inf], np.float32)
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)
        self.action_space = spaces.Discrete(2)

    def render(self, row: Any) -> Array:
        """The track, the cart and the pole."""
        return _picture(float(row.x), float(row.angle))


class CartPoleEnv(WorldEnv):
    """One CartPole, as an ordinary environment."""

    world_class = CartPole


def _picture(x: float, angle: float) -> Array:
    picture = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    scale = WIDTH / (2 * FARTHEST)
    middle = WIDTH / 2 + scale * x
    across, down = np.meshgrid(np.arange(WIDTH) - middle, np.arange(HEIGHT) - CART_TOP)
    picture[CART_TOP + 10, :] = (150, 160, 170)
    picture[(abs(across) <= 16) & (down >= 0) & (down <= 20)] = (38, 70, 110)
    # Along the pole, and aside from it.
    along = across * math.sin(angle) - down * math.cos(angle)
    aside = across * math.cos(angle) + down * math.sin(angle)
    picture[(along >= 0) & (along <= scale * 2 * HALF_POLE) & (abs(aside) <= 3)] = (214, 140, 60)
    picture[across**2 + down**2 <= 16] = (120, 130, 200)
    return picture
