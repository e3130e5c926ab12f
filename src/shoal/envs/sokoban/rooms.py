"""Rooms, dug by somebody who walks at random and leaves a small patch of floor wherever he is."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.envs.chance import below, uniform
from shoal.envs.compiling import rule
from shoal.envs.sokoban.cells import FLOOR, MAX_CELLS, TARGET, WALL, Room
from shoal.vector.layout import Array

TURN_CHANCE = 0.35
STEPS_PER_SIDE = 1.7
DOWNWARDS = np.array([-1, 1, 0, 0])
RIGHTWARDS = np.array([0, 0, -1, 1])
# Of 3 x 3 cells, a bit for each: a line across, a line down, two corners, and a square. The middle is in all of them, so
# that all floor hangs together.
PATCHES = np.array([0b000111000, 0b010010010, 0b010011000, 0b010110000, 0b110110000])


@rule
def dig(room: Room, row: Any) -> Array:
    """A board of walls and floor."""
    ground = np.full(MAX_CELLS, WALL, np.int8)
    last_row, last_column = room.num_rows - 2, room.num_columns - 2
    at_row, at_column, direction = 1 + below(row, last_row), 1 + below(row, last_column), below(row, 4)
    for _ in range(int(STEPS_PER_SIDE * (room.num_rows + room.num_columns))):
        if uniform(row) < TURN_CHANCE:
            direction = below(row, 4)
        at_row = min(max(at_row + DOWNWARDS[direction], 1), last_row)
        at_column = min(max(at_column + RIGHTWARDS[direction], 1), last_column)
        patch = PATCHES[below(row, len(PATCHES))]
        for bit in range(9):
            row_number, column = at_row + bit // 3 - 1, at_column + bit % 3 - 1
            if (patch >> bit) & 1 and 1 <= row_number <= last_row and 1 <= column <= last_column:
                ground[row_number * room.num_columns + column] = FLOOR
    return ground


@rule
def furnish(room: Room, row: Any, ground: Array) -> Array:
    """Mark targets on the floor; returns where the player and then the targets are, or nothing if there is no room."""
    floor = np.flatnonzero(ground == FLOOR)
    if len(floor) <= room.num_boxes + 1:
        return floor[:0]
    for place in range(room.num_boxes + 1):
        other = place + below(row, len(floor) - place)
        chosen = floor[other]
        floor[other] = floor[place]
        floor[place] = chosen
        if place > 0:
            ground[chosen] = TARGET
    return floor[: room.num_boxes + 1]
