"""FrozenLake as text: walk over the ice to the goal, and not into a hole. ``shoal/FrozenLakeText-v0``.

The rules are those of ``shoal/FrozenLake-v0``. Here every task has a map of its own, a text, in which start and goal may be
anywhere, and the slips come from the noise's seed.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from shoal.envs.texts.noise import task_generator
from shoal.envs.texts.settings import check_probability
from shoal.envs.texts.text_env import TextEnv
from shoal.vector.arguments import check_count, check_flag
from shoal.vector.errors import ConfigurationError

LEFT, DOWN, RIGHT, UP = range(4)
ICE, HOLE = "_", "O"
LARGEST_SIZE = 64
NUM_KEPT_MAPS = 256


@dataclass(frozen=True)
class FrozenLakeTextConfig:
    """How lakes are made, and how slippery they are."""

    size: int = 4
    """The side of the square."""
    p: float = 0.8
    """How likely a cell is ice rather than a hole."""
    is_slippery: bool = True
    """Whether one slips at all."""
    success_rate: float = 0.8
    """How likely one moves where one wants to; otherwise to one side or the other, each as likely as the other."""
    map_seed: int | None = None
    """The map of every episode; ``None`` for one that the task's seed decides."""
    render_mode: str = "text"
    """What ``render()`` returns."""

    action_lookup: ClassVar[Mapping[int, str]] = MappingProxyType({1: "Left", 2: "Down", 3: "Right", 4: "Up"})
    grid_vocab: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "P": "player",
            "_": "frozen",
            "O": "hole",
            "G": "goal",
            "X": "player in hole",
            "√": "player on goal",
        }
    )

    def __post_init__(self) -> None:
        check_count("size", self.size)
        if not 2 <= self.size <= LARGEST_SIZE:
            raise ConfigurationError(f"size must be from 2 to {LARGEST_SIZE}, got {self.size}")
        check_probability("p", self.p)
        check_probability("success_rate", self.success_rate)
        check_flag("is_slippery", self.is_slippery)


class Lake(NamedTuple):
    """A map, and where one begins and wants to get to, as numbers of cells."""

    cells: str
    start: int
    goal: int


@functools.lru_cache(NUM_KEPT_MAPS)
def lake_of(size: int, p: float, seed: int) -> Lake:
    """A random map on which the goal can be reached."""
    random = task_generator(seed)
    num_cells = size * size
    while True:  # however few ice there is, start and goal will lie side by side at last
        is_ice = (random.random(num_cells) < p).tolist()
        start, other = int(random.integers(num_cells)), int(random.integers(num_cells - 1))
        goal = other + (other >= start)
        is_ice[start] = is_ice[goal] = True
        lake = Lake("".join(ICE if one else HOLE for one in is_ice), start, goal)
        if shortest_path(lake, size, start) is not None:
            return lake


def neighbour(size: int, cell: int, direction: int) -> int:
    """Where one gets from a cell in a direction; at the edge, one stays."""
    row, column = divmod(cell, size)
    if direction == LEFT:
        return cell - (column > 0)
    if direction == RIGHT:
        return cell + (column < size - 1)
    if direction == DOWN:
        return cell + size * (row < size - 1)
    return cell - size * (row > 0)


def shortest_path(lake: Lake, size: int, position: int) -> list[int] | None:
    """The directions that lead to the goal without slipping; ``None`` if it cannot be reached."""
    if lake.cells[position] == HOLE:
        return None
    before: dict[int, tuple[int, int]] = {position: (position, -1)}
    waiting = deque([position])
    while waiting and lake.goal not in before:
        cell = waiting.popleft()
        for direction in (LEFT, DOWN, RIGHT, UP):
            there = neighbour(size, cell, direction)
            if there not in before and lake.cells[there] != HOLE:
                before[there] = cell, direction
                waiting.append(there)
    if lake.goal not in before:
        return None
    path, cell = [], lake.goal
    while cell != position:
        cell, direction = before[cell]
        path.append(direction)
    return path[::-1]


class FrozenLakeTextEnv(TextEnv):
    """Walk to the goal."""

    config_class = FrozenLakeTextConfig
    config: FrozenLakeTextConfig
    action_lookup = FrozenLakeTextConfig.action_lookup

    def begin(self, task_seed: int) -> None:
        """Draw the map, or find the one that was drawn for this task before."""
        config = self.config
        self.lake = lake_of(config.size, config.p, task_seed if config.map_seed is None else config.map_seed)
        self.position = self.lake.start

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Go, or slip."""
        before = self.position
        if self._has_ended:
            return 0.0, True, False
        direction = int(action) - 1
        if self.config.is_slippery:
            chance, aside = self.noise.uniform(), (1.0 - self.config.success_rate) / 2.0
            slip = -1 if chance < aside else 0 if chance < aside + self.config.success_rate else 1
            direction = (direction + slip) % 4
        self.position = neighbour(self.config.size, before, direction)
        return float(self.success), self._has_ended, self.position != before

    def text(self) -> str:
        """The map with the player, line by line."""
        size, lake = self.config.size, self.lake
        cells = list(lake.cells)
        cells[lake.goal] = "G"
        cells[self.position] = "√" if self.success else "X" if cells[self.position] == HOLE else "P"
        return "\n".join("".join(cells[row * size : (row + 1) * size]) for row in range(size))

    @property
    def success(self) -> bool:
        """Whether the player is at the goal."""
        return self.position == self.lake.goal

    def solve(self) -> list[Any] | None:
        """The shortest way. Who slips asks again after each step."""
        path = shortest_path(self.lake, self.config.size, self.position)
        return None if path is None else [direction + 1 for direction in path]

    @property
    def _has_ended(self) -> bool:
        return self.success or self.lake.cells[self.position] == HOLE
