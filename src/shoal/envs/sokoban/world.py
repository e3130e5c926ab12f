"""Sokoban as a world: many boards that are stepped in one call, and seen as arrays. ``shoal/SokobanGrid-v0``."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from shoal.envs.sokoban.cells import PLAYER_ON_TARGET
from shoal.envs.sokoban.config import ACTION_LOOKUP, RENDER_MODES, SokobanConfig
from shoal.envs.sokoban.pictures import as_picture, as_tiny_picture
from shoal.envs.sokoban.rules import FIELDS, INFOS, begin_row, observe_row, step_row
from shoal.envs.sokoban.wording import as_text, table_of
from shoal.envs.texts.settings import config_of
from shoal.envs.world import Rows, World
from shoal.envs.world_env import WorldEnv
from shoal.vector.layout import Array


class Sokoban(World):
    """The world of a config."""

    fields, infos = FIELDS, INFOS
    begin_row, step_row, observe_row = staticmethod(begin_row), staticmethod(step_row), staticmethod(observe_row)
    metadata = {"render_modes": [*RENDER_MODES], "render_fps": 4}

    def __init__(self, config: SokobanConfig) -> None:
        self.config, self.tables, self.render_mode = config, config.room, config.render_mode
        self._symbols = table_of(config.grid_lookup)
        shape = self.tables.num_rows, self.tables.num_columns
        self.observation_space = spaces.MultiDiscrete(np.full(shape, PLAYER_ON_TARGET + 1), dtype=np.uint8)
        self.action_space = spaces.Discrete(len(ACTION_LOOKUP), start=min(ACTION_LOOKUP))

    def board(self, row: Any) -> Array:
        """The cells of a row, line by line. It is a view."""
        room = self.tables
        its: Array = row["board"][: room.num_cells].reshape(room.num_rows, room.num_columns)
        return its

    def text(self, board: Array) -> str:
        """What a language model sees of it."""
        return as_text(board, self.config.observation_format, self._symbols)

    def render(self, row: Any) -> Any:
        """A text, a picture, or a picture with one pixel for each cell."""
        return self.show(self.board(row))

    def show(self, board: Array) -> Any:
        """What ``render`` returns for it."""
        if self.render_mode == "rgb_array":
            return as_picture(board)
        return as_tiny_picture(board) if self.render_mode == "tiny_rgb_array" else self.text(board)


class SokobanGridEnv(WorldEnv):
    """One Sokoban that is seen as an array, as an ordinary environment. Its options are the fields of the config."""

    world_class = Sokoban

    @classmethod
    def _make_rows(
        cls,
        num_rows: int,
        max_episode_steps: int | None = None,
        config: Any = None,
        render_mode: str | None = None,
        **settings: Any,
    ) -> Rows:
        if render_mode is not None:
            settings["render_mode"] = render_mode
        its: SokobanConfig = config_of(SokobanConfig, config, settings)
        limit = its.max_steps if max_episode_steps is None else min(its.max_steps, max_episode_steps)
        return Rows(Sokoban(its), num_rows, limit)
