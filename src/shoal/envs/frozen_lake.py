"""FrozenLake: walk over the ice to the goal, and not into a hole. ``shoal/FrozenLake-v0``.

The rules are those of Gymnasium's ``FrozenLake-v1``: on the same map, the same actions and slips lead to the same
observations, rewards and ends. Only the random numbers are others, because every row has a stream of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.envs.toy_text.frozen_lake import MAPS, generate_random_map

from shoal.envs.chance import below, uniform
from shoal.envs.compiling import rule
from shoal.envs.world import World
from shoal.envs.world_env import WorldEnv
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

LEFT, DOWN, RIGHT, UP = range(4)
ICE, HOLE, GOAL = range(3)


class Lake(NamedTuple):
    """A map and its rules as arrays."""

    neighbour: Array
    """Where one gets from a cell (by number) in a direction."""
    kind: Array
    """What a cell is: ice, a hole, or the goal."""
    starts: Array
    """The cells in which episodes begin."""
    rewards: Array
    """For getting into a cell of each kind."""
    slippery: bool
    success_rate: float
    """How likely one moves where one wants to; otherwise to one side or the other."""


@rule
def move(lake: Lake, row: Any, direction: int) -> tuple[float, bool]:
    """Go one cell in this direction; returns the reward, and whether the episode has ended."""
    if lake.kind[row.position] != ICE:
        return 0.0, True
    row.position = lake.neighbour[row.position, direction]
    kind = lake.kind[row.position]
    return lake.rewards[kind], kind != ICE


def begin_row(lake: Lake, row: Any, info: Any) -> None:
    """Begin an episode."""
    row.position = lake.starts[0] if len(lake.starts) == 1 else lake.starts[below(row, len(lake.starts))]
    info.prob = 1.0


def step_row(lake: Lake, row: Any, action: int, info: Any) -> tuple[float, bool]:
    """Move in the direction of the action, or slip to one of its sides."""
    direction, info.prob = action, 1.0
    if lake.slippery and lake.kind[row.position] == ICE:
        chance, aside = uniform(row), (1.0 - lake.success_rate) / 2.0
        slip = -1 if chance < aside else 0 if chance < aside + lake.success_rate else 1
        direction = (action + slip) % 4
        info.prob = lake.success_rate if slip == 0 else aside
    return move(lake, row, direction)


def observe_row(lake: Lake, row: Any, observation: Any) -> None:
    """The number of the cell."""
    observation[0] = row.position


class FrozenLake(World):
    """The world. ``desc``, ``map_name``, ``is_slippery``, ``success_rate`` and ``reward_schedule`` are those of Gymnasium's.

    Without a map and its name, a map of 8 x 8 is drawn from ``map_seed``.
    """

    fields = (("position", "i8"),)
    infos = (("prob", "f8"),)
    begin_row, step_row, observe_row = staticmethod(begin_row), staticmethod(step_row), staticmethod(observe_row)
    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init__(
        self,
        render_mode: str | None = None,
        desc: Sequence[str] | None = None,
        map_name: str | None = "4x4",
        is_slippery: bool = True,
        success_rate: float = 1 / 3,
        reward_schedule: Sequence[float] = (1, 0, 0),
        map_seed: int = 0,
    ) -> None:
        self.render_mode = render_mode
        self.desc = np.asarray(_map_of(desc, map_name, map_seed), dtype="c")
        self.tables = _lake_of(self.desc, bool(is_slippery), float(success_rate), reward_schedule)
        self.observation_space = spaces.Discrete(self.desc.size)
        self.action_space = spaces.Discrete(4)

    def render(self, row: Any) -> Any:
        """The map with the walker: letters, or squares of 16 x 16 pixels."""
        position = divmod(int(row.position), self.desc.shape[1])
        if self.render_mode == "ansi":
            cells = [[f" {letter.decode()} " for letter in line] for line in self.desc.tolist()]
            row_number, column = position
            cells[row_number][column] = f"[{cells[row_number][column].strip()}]"
            return "\n".join(map("".join, cells))
        return _picture(self.desc, position)


class FrozenLakeEnv(WorldEnv):
    """One FrozenLake, as an ordinary environment."""

    world_class = FrozenLake


def _map_of(desc: Sequence[str] | None, map_name: str | None, map_seed: int) -> Sequence[str]:
    if desc is not None:
        lengths = {len(line) for line in desc}
        if len(lengths) != 1 or not any("S" in str(line) for line in desc):
            raise ConfigurationError(
                f"desc must be lines of one length, one of them with an 'S' to begin in, got {desc!r}"
            )
        return desc
    if map_name is None:
        # The same for all: workers make their worlds apart from each other, and make them again.
        return generate_random_map(seed=map_seed)
    if map_name not in MAPS:
        raise ConfigurationError(f"map_name must be one of {', '.join(map(repr, MAPS))}, got {map_name!r}")
    its: list[str] = MAPS[map_name]
    return its


def _lake_of(desc: Array, slippery: bool, success_rate: float, reward_schedule: Sequence[float]) -> Lake:
    num_rows, num_columns = desc.shape
    row, column = np.divmod(np.arange(desc.size), num_columns)
    moves = {
        LEFT: (row, np.maximum(column - 1, 0)),
        DOWN: (np.minimum(row + 1, num_rows - 1), column),
        RIGHT: (row, np.minimum(column + 1, num_columns - 1)),
        UP: (np.maximum(row - 1, 0), column),
    }
    goal, hole, ice = (float(reward) for reward in reward_schedule)
    letters = desc.reshape(-1)
    return Lake(
        neighbour=np.stack([to_row * num_columns + to_column for to_row, to_column in moves.values()], axis=1),
        kind=np.where(letters == b"G", GOAL, np.where(letters == b"H", HOLE, ICE)).astype(np.int64),
        starts=np.flatnonzero(letters == b"S"),
        rewards=np.array([ice, hole, goal]),
        slippery=slippery,
        success_rate=success_rate,
    )


def _picture(desc: Array, position: tuple[int, int], size: int = 16) -> Array:
    colours = {b"H": (38, 70, 110), b"G": (245, 196, 80)}
    cells = np.array([[colours.get(letter, (226, 240, 250)) for letter in line] for line in desc.tolist()], np.uint8)
    picture = cells.repeat(size, axis=0).repeat(size, axis=1)
    picture[::size] = picture[:, ::size] = (200, 216, 230)
    top, left = (size * place for place in position)
    quarter = size // 4
    picture[top + quarter : top + size - quarter, left + quarter : left + size - quarter] = (214, 84, 60)
    return picture
