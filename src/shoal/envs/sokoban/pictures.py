"""Pictures of a board, put together from seven tiles that are drawn once."""

from __future__ import annotations

import functools

import numpy as np

from shoal.envs.sokoban.cells import BOX, BOX_ON_TARGET, FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET, WALL
from shoal.vector.layout import Array

SIZE = 32
FINENESS = 4  # tiles are drawn larger than they are, so that their curves are smooth

Colour = tuple[int, int, int]
TINY: dict[int, Colour] = {
    WALL: (84, 72, 78),
    FLOOR: (236, 228, 212),
    TARGET: (216, 92, 84),
    BOX_ON_TARGET: (88, 160, 96),
    BOX: (196, 138, 74),
    PLAYER: (58, 104, 176),
    PLAYER_ON_TARGET: (132, 82, 160),
}


def as_tiny_picture(board: Array) -> Array:
    """One pixel for each cell."""
    picture: Array = np.array([TINY[code] for code in range(len(TINY))], np.uint8)[board]
    return picture


def as_picture(board: Array) -> Array:
    """A tile for each cell."""
    rows, columns = board.shape
    tiles = _tiles()[board]
    picture: Array = tiles.transpose(0, 2, 1, 3, 4).reshape(rows * SIZE, columns * SIZE, 3)
    return picture


@functools.cache
def _tiles() -> Array:
    drawn = [_wall(), _floor(), _target(), _crate(_target(), (104, 172, 104)), _crate(_floor(), (204, 148, 84))]
    drawn += [_player(_floor()), _player(_target())]
    large = np.stack(drawn).reshape(len(drawn), SIZE, FINENESS, SIZE, FINENESS, 3)
    tiles: Array = large.mean(axis=(2, 4)).round().astype(np.uint8)
    return tiles


_across, _down = np.meshgrid(*2 * [(np.arange(SIZE * FINENESS) + 0.5) / (SIZE * FINENESS)])
"""Of every point of a tile, from 0 to 1."""


def _disc(across: float, down: float, radius: float) -> Array:
    where: Array = (_across - across) ** 2 + (_down - down) ** 2 <= radius**2
    return where


def _box(left: float, top: float, right: float, bottom: float, radius: float = 0.0) -> Array:
    """A rectangle with round corners."""
    beyond_across = np.maximum(np.maximum(left + radius - _across, _across - right + radius), 0.0)
    beyond_down = np.maximum(np.maximum(top + radius - _down, _down - bottom + radius), 0.0)
    where: Array = beyond_across**2 + beyond_down**2 <= max(radius, 1e-9) ** 2
    return where


def _filled(colour: Colour) -> Array:
    return np.broadcast_to(np.array(colour, np.float64), (SIZE * FINENESS, SIZE * FINENESS, 3)).copy()


def _shade(tile: Array, where: Array, factor: float) -> None:
    tile[where] = np.clip(tile[where] * factor, 0, 255)


def _floor() -> Array:
    tile = _filled((236, 228, 212))
    _shade(tile, ~_box(0.02, 0.02, 0.98, 0.98), 0.95)
    return tile


def _wall() -> Array:
    tile = _filled((64, 55, 60))  # mortar
    for number in range(4):
        top = number / 4 + 0.025
        for left in (-0.5, 0.0, 0.5) if number % 2 == 0 else (-0.25, 0.25, 0.75):
            brick = _box(left + 0.02, top, left + 0.48, top + 0.2, 0.03)
            tile[brick] = (126 + 6 * (number % 3), 104, 104)
            _shade(tile, brick & (_down < top + 0.045), 1.14)
            _shade(tile, brick & (_down > top + 0.16), 0.86)
    return tile


def _target() -> Array:
    tile = _floor()
    tile[_disc(0.5, 0.5, 0.3) & ~_disc(0.5, 0.5, 0.22)] = (216, 92, 84)
    tile[_disc(0.5, 0.5, 0.11)] = (216, 92, 84)
    return tile


def _crate(tile: Array, colour: Colour) -> Array:
    _shade(tile, _box(0.1, 0.14, 0.96, 0.98, 0.08), 0.8)  # its shadow
    outside, inside = _box(0.07, 0.07, 0.93, 0.93, 0.06), _box(0.2, 0.2, 0.8, 0.8)
    tile[outside] = colour
    _shade(tile, inside, 0.84)
    brace = (np.abs(_across - _down) < 0.075) | (np.abs(_across + _down - 1) < 0.075)
    tile[inside & brace] = colour
    edge = (np.abs(np.abs(_across - _down) - 0.075) < 0.012) | (np.abs(np.abs(_across + _down - 1) - 0.075) < 0.012)
    _shade(tile, inside & edge & ~(inside & brace & _box(0.42, 0.42, 0.58, 0.58)), 0.72)
    _shade(tile, inside & ~_box(0.22, 0.22, 0.78, 0.78), 0.68)
    _shade(tile, outside & ~_box(0.09, 0.09, 0.91, 0.91, 0.05), 0.7)
    _shade(tile, outside & (_down < 0.13) & (_down > 0.09), 1.12)
    return tile


def _player(tile: Array) -> Array:
    _shade(tile, ((_across - 0.52) / 0.33) ** 2 + ((_down - 0.88) / 0.1) ** 2 <= 1, 0.8)  # his shadow
    body = _box(0.24, 0.5, 0.76, 0.9, 0.16)
    tile[body] = (58, 104, 176)
    _shade(tile, body & (_down > 0.78), 0.84)
    tile[_box(0.24, 0.68, 0.76, 0.74)] = (40, 72, 126)  # his belt
    tile[_disc(0.5, 0.36, 0.25)] = (246, 208, 172)
    tile[_disc(0.5, 0.36, 0.25) & (_down < 0.28)] = (196, 66, 58)  # his cap
    tile[_box(0.22, 0.25, 0.78, 0.3, 0.025)] = (164, 50, 46)
    for across in (0.41, 0.59):
        tile[_disc(across, 0.4, 0.035)] = (46, 40, 44)
    return tile
