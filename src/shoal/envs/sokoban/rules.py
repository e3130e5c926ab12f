"""The rules of Sokoban, for one row: how a level begins, and what a move does."""

from __future__ import annotations

from typing import Any

from shoal.envs.chance import below, uniform
from shoal.envs.compiling import rule
from shoal.envs.sokoban.cells import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    MAX_CELLS,
    PLAYER,
    TARGET,
    Room,
    is_box,
    is_free,
    offset_of,
)
from shoal.envs.sokoban.reverse_play import play_backwards
from shoal.envs.sokoban.rooms import dig, furnish
from shoal.vector.errors import ConfigurationError

STEP_REWARD, TARGET_REWARD, SOLVED_REWARD = -0.1, 1.0, 10.0
MAX_ATTEMPTS = 20_000
MAX_STROLL = 3

FIELDS = (("board", "i1", (MAX_CELLS,)), ("player", "i8"), ("num_on_target", "i8"))
INFOS = (("action_is_valid", "?"), ("action_is_effective", "?"), ("success", "?"))


@rule
def move(row: Any, offset: int) -> bool:
    """Let the player go one cell, and push what is there; returns whether he could."""
    board, there = row.board, row.player + offset
    if is_box(board[there]):
        beyond = there + offset
        if not is_free(board[beyond]):
            return False
        if board[there] == BOX_ON_TARGET:
            row.num_on_target -= 1
        if board[beyond] == TARGET:
            row.num_on_target += 1
        board[there] = FLOOR if board[there] == BOX else TARGET
        board[beyond] = BOX if board[beyond] == FLOOR else BOX_ON_TARGET
    if not is_free(board[there]):
        return False
    board[row.player] -= PLAYER - FLOOR
    board[there] += PLAYER - FLOOR
    row.player = there
    return True


@rule
def stroll(room: Room, row: Any, chance: float) -> None:
    """Let the player walk a few cells, or none, touching no box."""
    for _ in range(MAX_STROLL):
        if uniform(row) >= chance:
            break
        offset = offset_of(room.num_columns, 1 + below(row, 4))
        if is_free(row.board[row.player + offset]):
            move(row, offset)
        chance = 0.5


def begin_row(room: Room, row: Any, info: Any) -> None:
    """Make a level. Attempts that come to nothing are followed by others, with the numbers that come next in the stream."""
    for _ in range(MAX_ATTEMPTS):
        ground = dig(room, row)
        places = furnish(room, row, ground)
        away = play_backwards(room, row, ground, places) if len(places) > 0 else 0
        if away > 0:
            row.board[:] = ground
            for box in places[1:]:
                row.board[box] = BOX
            row.player, row.num_on_target = places[0], 0
            row.board[row.player] += PLAYER - FLOOR
            stroll(room, row, 0.8 if away == 1 else 0.5)
            info.action_is_valid, info.action_is_effective, info.success = False, False, False
            return
    raise ConfigurationError(
        "no Sokoban level was found: what to do: raise search_depth, enlarge dim_room, or lower num_boxes"
    )


def step_row(room: Room, row: Any, action: int, info: Any) -> tuple[float, bool]:
    """Move. A level that has been solved stays as it is."""
    info.action_is_valid, info.action_is_effective = True, False
    before = row.num_on_target
    if before == room.num_boxes:
        info.success = True
        return 0.0, True
    info.action_is_effective = move(row, offset_of(room.num_columns, action))
    is_solved = row.num_on_target == room.num_boxes
    info.success = is_solved
    reward = STEP_REWARD + TARGET_REWARD * (row.num_on_target - before)
    return reward + (SOLVED_REWARD if is_solved else 0.0), is_solved


def observe_row(room: Room, row: Any, observation: Any) -> None:
    """The codes of all cells."""
    for cell in range(room.num_rows * room.num_columns):
        observation[cell] = row.board[cell]
