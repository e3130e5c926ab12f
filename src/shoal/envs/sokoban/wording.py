"""A board as text: a grid of symbols, lists of coordinates, or both."""

from __future__ import annotations

import codecs
from collections.abc import Mapping

import numpy as np

from shoal.envs.sokoban.cells import BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET, TARGET
from shoal.vector.layout import Array

NEWLINE = PLAYER_ON_TARGET + 1
Table = str | dict[int, str]


def table_of(grid_lookup: Mapping[int, str]) -> Table:
    """What makes symbols of codes: a text, which is quickest, where every symbol is one letter."""
    symbols = [*(grid_lookup[code] for code in range(NEWLINE)), "\n"]
    return "".join(symbols) if all(len(symbol) == 1 for symbol in symbols) else dict(enumerate(symbols))


def as_grid(board: Array, table: Table) -> str:
    """A line of symbols for each line of the board."""
    lines = np.full((board.shape[0], board.shape[1] + 1), NEWLINE, np.uint8)
    lines[:, :-1] = board
    # Table lookup in C; `str.translate` takes ten times as long where a symbol is not ASCII.
    return codecs.charmap_decode(lines.tobytes()[:-1], "strict", table)[0]


def as_coordinates(board: Array) -> str:
    """Where everything is that is no wall and no floor. Targets are listed whatever stands on them."""
    places = {
        "Targets": (TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET),
        "Boxes": (BOX,),
        "Boxes on target": (BOX_ON_TARGET,),
        "Player": (PLAYER, PLAYER_ON_TARGET),
    }
    lines = [f"Board size: {board.shape[0]} rows x {board.shape[1]} cols (zero-indexed)."]
    for name, codes in places.items():
        cells = np.argwhere(np.isin(board, codes)).tolist()
        lines.append(f"{name}: {', '.join(f'({row}, {column})' for row, column in cells) or 'none'}")
    return "\n".join(lines)


def as_text(board: Array, observation_format: str, table: Table) -> str:
    """The board in one of the formats of a config."""
    if observation_format == "grid":
        return as_grid(board, table)
    if observation_format == "coord":
        return as_coordinates(board)
    return f"Coordinates: \n{as_coordinates(board)}\nGrid Map: \n{as_grid(board, table)}"
