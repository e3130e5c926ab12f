"""Sokoban as a language model plays it: seen as text, acted in by name or number. ``shoal/Sokoban-v0``."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from shoal.envs.sokoban.config import ACTION_LOOKUP, RENDER_MODES, SokobanConfig
from shoal.envs.sokoban.levels import levels_of, rows_of
from shoal.envs.sokoban.solver import solve
from shoal.envs.sokoban.world import Sokoban
from shoal.envs.texts.settings import config_of
from shoal.envs.texts.text_env import SEED_LIMIT, TextEnv
from shoal.vector.layout import Array


class SokobanEnv(TextEnv):
    """Push all boxes onto targets.

    Args:
        config: a :class:`SokobanConfig`, or a mapping of its fields.
        render_mode: what :meth:`render` returns, instead of what the config says.
        settings: fields of the config, instead of a config or to change one.
    """

    config_class = SokobanConfig
    config: SokobanConfig
    action_lookup: Mapping[int, str] | None = ACTION_LOOKUP
    metadata = {"render_modes": [*RENDER_MODES], "render_fps": 4}
    _MADE_WITH = TextEnv._MADE_WITH | {"action_lookup", "world", "_rows", "_row", "_board", "_infos"}

    def __init__(self, config: Any = None, *, render_mode: str | None = None, **settings: Any) -> None:
        if render_mode is not None:
            settings["render_mode"] = render_mode
        super().__init__(config_of(SokobanConfig, config, settings))
        self.action_lookup = self.config.action_lookup
        self.world = Sokoban(self.config)
        self._rows = rows_of(self.world, self.config.max_steps)
        self._is_cut = False
        self._look()

    def _look(self) -> None:
        """Find once what is looked at in every step."""
        self._row, self._infos = self._rows.state.view(np.ndarray), self._rows.infos.view(np.ndarray)
        self._board = self.world.board(self._row[0])

    def begin(self, task_seed: int) -> None:
        """Begin with the level of this task. If levels take long to make, the next one is made ahead."""
        levels = levels_of(self.config.room)
        self._put(levels.of(task_seed))
        self._is_cut = False
        if levels.are_slow:
            levels.prepare([self._next_task_seed()])

    def _put(self, row: bytes) -> None:
        self._row[:] = np.frombuffer(row, self._row.dtype)

    def _next_task_seed(self) -> int:
        """What the next reset will draw, if it is given no seed."""
        return int(copy.deepcopy(self.np_random).integers(SEED_LIMIT))

    def prepare(self, task_seeds: Iterable[int]) -> None:
        """Make the levels of these tasks ahead, in a thread, for all environments of this process."""
        levels_of(self.config.room).prepare(task_seeds)

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Move."""
        reward, is_solved, self._is_cut = self._rows.step_one(0, self._rows.everybody, action)
        return reward, is_solved, bool(self._infos["action_is_effective"][0])

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Move. After ``max_steps`` moves the episode is truncated."""
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, self._is_cut, info

    @property
    def board(self) -> Array:
        """The codes of all cells, line by line. It is a copy."""
        return self._board.copy()

    def text(self) -> str:
        """The board, in the config's ``observation_format``."""
        return self.world.text(self._board)

    @property
    def success(self) -> bool:
        """Whether all boxes are on targets."""
        return bool(self._row["num_on_target"][0] == self.config.num_boxes)

    def solve(self) -> list[int] | None:
        """The fewest moves that solve the level from here on; ``None`` if it cannot be solved any more."""
        return solve(self._board)

    def render(self) -> Any:
        """A text, a picture, or a picture with one pixel for each cell, as ``render_mode`` says."""
        self._check_begun()
        return self.world.show(self._board)

    def get_state(self) -> dict[str, Any]:
        """Where the episode is. It is a copy."""
        return {**super().get_state(), "row": self._row.tobytes()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        others = dict(state)
        self._put(others.pop("row"))
        super().set_state(others)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy is made from: without views of what is copied."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_row", "_infos", "_board")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._look()
