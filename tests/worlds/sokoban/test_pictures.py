"""Pictures show what is where."""

from __future__ import annotations

import numpy as np

import shoal
from shoal.envs.sokoban import SokobanEnv
from shoal.envs.sokoban.pictures import SIZE, TINY, as_picture, as_tiny_picture


def test_every_kind_of_cell_looks_different() -> None:
    kinds = np.arange(7)
    tiles = np.split(as_picture(kinds[None]), 7, axis=1)
    assert all(tile.shape == (SIZE, SIZE, 3) for tile in tiles)
    for one in range(7):
        for other in range(one):
            difference = np.abs(tiles[one].astype(int) - tiles[other].astype(int)).max(axis=-1)
            assert (difference > 40).mean() > 0.03
    assert len(set(map(tuple, as_tiny_picture(kinds[None])[0].tolist()))) == 7


def test_the_picture_is_the_board_tile_by_tile() -> None:
    env = SokobanEnv(dim_room=(5, 8), num_boxes=2, render_mode="rgb_array")
    env.reset(seed=0)
    picture, tiles = env.render(), as_picture(np.arange(7)[None])
    assert picture.shape == (5 * SIZE, 8 * SIZE, 3)
    assert picture.dtype == np.uint8
    for (row, column), code in np.ndenumerate(env.board.astype(int)):
        tile = picture[row * SIZE : (row + 1) * SIZE, column * SIZE : (column + 1) * SIZE]
        assert (tile == tiles[:, code * SIZE : (code + 1) * SIZE]).all()


def test_a_tiny_picture_has_a_pixel_for_each_cell() -> None:
    env = SokobanEnv(render_mode="tiny_rgb_array")
    env.reset(seed=0)
    assert env.render().tolist() == [[[*TINY[code]] for code in line] for line in env.board.tolist()]


def test_all_environments_can_be_drawn_at_once() -> None:
    for env_id in ("shoal/Sokoban-v0", "shoal/SokobanGrid-v0"):
        with shoal.make(env_id, 3, backend="serial", render_mode="rgb_array") as envs:
            envs.reset(seed=0)
            assert [picture.shape for picture in envs.render() or ()] == [(6 * SIZE, 6 * SIZE, 3)] * 3
        with shoal.make(env_id, 2, backend="serial", render_mode="text") as envs:
            envs.reset(seed=0)
            assert [text.count("P") + text.count("S") for text in envs.call("render")] == [1, 1]
