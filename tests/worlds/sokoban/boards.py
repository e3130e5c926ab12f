"""Boards of one's own, and what Sokoban does, written down a second time."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import numpy as np

from shoal.envs.sokoban import SokobanEnv
from shoal.envs.sokoban.cells import BOX_ON_TARGET, PLAYER, board_of


def env_with(text: str, **settings: Any) -> SokobanEnv:
    """An environment in an episode that begins with this board."""
    board = board_of(dedent(text))
    num_boxes = int(np.isin(board, (3, 4)).sum())
    env = SokobanEnv(dim_room=board.shape, num_boxes=num_boxes, **settings)
    env.reset(seed=0)
    env._board[:] = board
    env._row["player"] = int(np.flatnonzero(board.reshape(-1) >= PLAYER)[0])
    env._row["num_on_target"] = int((board == BOX_ON_TARGET).sum())
    return env


class Sets:
    """The game, as sets of cells."""

    STEPS = {1: (-1, 0), 2: (1, 0), 3: (0, -1), 4: (0, 1)}

    def __init__(self, text: str) -> None:
        cells = {(r, c): symbol for r, line in enumerate(text.splitlines()) for c, symbol in enumerate(line)}
        self.walls = {cell for cell, symbol in cells.items() if symbol == "#"}
        self.targets = {cell for cell, symbol in cells.items() if symbol in "O√S"}
        self.boxes = {cell for cell, symbol in cells.items() if symbol in "X√"}
        [self.player] = [cell for cell, symbol in cells.items() if symbol in "PS"]
        self.shape = max(cells)

    def step(self, action: int) -> tuple[float, bool, bool]:
        """Reward, whether all is done, and whether the player moved."""
        down, right = self.STEPS[action]
        before = len(self.boxes & self.targets)
        there = self.player[0] + down, self.player[1] + right
        beyond = there[0] + down, there[1] + right
        may = there not in self.walls and (there not in self.boxes or beyond not in self.walls | self.boxes)
        if may:
            if there in self.boxes:
                self.boxes = self.boxes - {there} | {beyond}
            self.player = there
        is_done = self.boxes <= self.targets
        return -0.1 + len(self.boxes & self.targets) - before + 10 * is_done, is_done, may

    def text(self) -> str:
        """The board."""
        symbols = {
            (False, False, False): "_", (True, False, False): "O", (True, True, False): "√", (False, True, False): "X",
            (False, False, True): "P", (True, False, True): "S",
        }  # fmt: skip

        def cell(at: tuple[int, int]) -> str:
            return "#" if at in self.walls else symbols[at in self.targets, at in self.boxes, at == self.player]

        return "\n".join("".join(cell((r, c)) for c in range(self.shape[1] + 1)) for r in range(self.shape[0] + 1))
