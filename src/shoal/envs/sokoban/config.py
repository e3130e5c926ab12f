"""What can be chosen about Sokoban. The keys and their defaults are those of RAGEN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.envs.sokoban.cells import MAX_CELLS, SYMBOLS, Room
from shoal.vector.arguments import check_choice, check_count
from shoal.vector.errors import ConfigurationError

ACTION_LOOKUP = {1: "Up", 2: "Down", 3: "Left", 4: "Right"}
GRID_LOOKUP = dict(enumerate(SYMBOLS))
GRID_VOCAB = {
    "#": "wall",
    "_": "empty",
    "O": "target",
    "√": "box on target",
    "X": "box",
    "P": "player",
    "S": "player on target",
}
FORMATS = ("grid", "coord", "grid_coord")
RENDER_MODES = ("text", "rgb_array", "tiny_rgb_array")
SMALLEST_SIDE = 5


@dataclass(frozen=True)
class SokobanConfig:
    """A kind of Sokoban."""

    dim_room: tuple[int, int] = (6, 6)
    """Rows and columns, walls included."""
    dim_x: int | None = None
    """Rows, instead of the first of ``dim_room``."""
    dim_y: int | None = None
    """Columns, instead of the second of ``dim_room``."""
    max_steps: int = 100
    """After so many moves the episode is over."""
    num_boxes: int = 3
    """And as many targets."""
    search_depth: int = 300
    """How many moves a level may be played backwards, in search of a good beginning."""
    render_mode: str = "text"
    """What ``render()`` returns: ``"text"``, ``"rgb_array"``, or ``"tiny_rgb_array"`` with one pixel for each cell."""
    observation_format: str = "grid"
    """What is seen: ``"grid"`` (a line of symbols for each row), ``"coord"`` (lists of coordinates), or ``"grid_coord"``."""
    grid_lookup: Mapping[int, str] = field(default_factory=GRID_LOOKUP.copy)
    """How each kind of cell is written."""
    grid_vocab: Mapping[str, str] = field(default_factory=GRID_VOCAB.copy)
    """What each symbol means, for prompts."""
    action_lookup: Mapping[int, str] = field(default_factory=ACTION_LOOKUP.copy)
    """What each action is called."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        object.__setattr__(self, "dim_room", _sides(self.dim_room))
        for name in ("dim_x", "dim_y"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        for name in ("max_steps", "num_boxes", "search_depth"):
            check_count(name, getattr(self, name))
        check_choice("render_mode", self.render_mode, RENDER_MODES)
        check_choice("observation_format", self.observation_format, FORMATS)
        _check_keys("grid_lookup", self.grid_lookup, GRID_LOOKUP)
        _check_keys("action_lookup", self.action_lookup, ACTION_LOOKUP)
        rows, columns, num_boxes, _ = self.room
        if min(rows, columns) < SMALLEST_SIDE or rows * columns > MAX_CELLS:
            raise ConfigurationError(
                f"a room has sides of at least {SMALLEST_SIDE} and at most {MAX_CELLS} cells with its walls, got dim_room of "
                f"{rows} x {columns}"
            )
        if num_boxes + 1 >= (rows - 2) * (columns - 2):
            raise ConfigurationError(
                f"num_boxes={num_boxes} and a player do not fit into a room of {rows} x {columns}, which has "
                f"{(rows - 2) * (columns - 2)} cells within its walls: lower num_boxes, or enlarge dim_room"
            )

    @property
    def room(self) -> Room:
        """Everything that a level depends on, beside its seed."""
        rows, columns = self.dim_room
        return Room(self.dim_x or rows, self.dim_y or columns, self.num_boxes, self.search_depth)


def _sides(value: Any) -> tuple[int, int]:
    sides = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(sides, list | tuple) or len(sides) != 2:
        raise ConfigurationError(f"dim_room must be two numbers, rows and columns, got {value!r}")
    for side in sides:
        check_count("dim_room", side)
    return int(sides[0]), int(sides[1])


def _check_keys(name: str, value: Any, known: Mapping[int, str]) -> None:
    if (
        not isinstance(value, Mapping)
        or set(value) != set(known)
        or not all(isinstance(v, str) for v in value.values())
    ):
        raise ConfigurationError(f"{name} must give a text for each of {', '.join(map(str, known))}, got {value!r}")
