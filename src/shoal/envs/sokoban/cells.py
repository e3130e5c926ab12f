"""Cells of a Sokoban room, and the room's size as rules see it.

A board is a flat array of cells, line by line. Its border is wall, so that nothing ever leaves it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.envs.compiling import rule
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

WALL, FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER, PLAYER_ON_TARGET = range(7)
SYMBOLS = "#_O√XPS"
UP, DOWN, LEFT, RIGHT = range(1, 5)

MAX_CELLS = 256
"""Of a room with its walls. Rules are compiled once for rooms of every size."""


class Room(NamedTuple):
    """What the levels of a config have in common."""

    num_rows: int
    num_columns: int
    num_boxes: int
    search_depth: int

    @property
    def num_cells(self) -> int:
        """Walls included."""
        return self.num_rows * self.num_columns


@rule
def offset_of(num_columns: int, action: int) -> int:
    """How far apart on a board two cells are, of which one is next to the other in this direction."""
    if action == UP:
        return -num_columns
    if action == DOWN:
        return num_columns
    return -1 if action == LEFT else 1


@rule
def is_free(cell: int) -> bool:
    """Whether somebody or something can be moved there."""
    return cell in (FLOOR, TARGET)


@rule
def is_box(cell: int) -> bool:
    """Whether there is a box."""
    return cell in (BOX, BOX_ON_TARGET)


@rule
def is_target(cell: int) -> bool:
    """Whether there is a target, whatever stands on it."""
    return cell in (TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET)


def board_of(board: Array | str) -> Array:
    """A board as an array of lines, from one, or from a text with a line of symbols for each of its lines."""
    if isinstance(board, str):
        lines = [line.strip() for line in board.strip().splitlines()]
        unknown = sorted(set("".join(lines)) - set(SYMBOLS))
        if unknown or len({len(line) for line in lines}) != 1:
            wrong = f"unknown symbols {''.join(unknown)!r}" if unknown else f"lines of lengths {[*map(len, lines)]}"
            raise ConfigurationError(f"a board has lines of one length, of the symbols {SYMBOLS}; this one has {wrong}")
        board = np.array([[SYMBOLS.index(symbol) for symbol in line] for line in lines])
    board = np.asarray(board, np.uint8)
    if board.ndim != 2 or not board.size or board.size > MAX_CELLS or board.max() > PLAYER_ON_TARGET:
        raise ConfigurationError(
            f"a board has lines and columns, at most {MAX_CELLS} cells, and codes from 0 to {PLAYER_ON_TARGET}"
        )
    border = np.concatenate([board[0], board[-1], board[:, 0], board[:, -1]])
    num_players = int((board >= PLAYER).sum())
    if (border != WALL).any() or num_players != 1:
        raise ConfigurationError(f"a board has walls around it and one player; this one has {num_players} players")
    return board
