"""A solver: the fewest moves that push all boxes onto targets (A* over pushes).

What is searched are positions after a push, by the moves that lead there, walks included. A box can never need fewer pushes
than it would on an empty board, so the sum of these is a bound. Cells from which not even that works are given up at once.
"""

from __future__ import annotations

import numpy as np

from shoal.envs.compiling import kernel, rule
from shoal.envs.sokoban.cells import MAX_CELLS, PLAYER, WALL, board_of, is_box, is_target, offset_of
from shoal.envs.sokoban.reverse_play import BOX_NUMBERS, PLAYER_NUMBERS
from shoal.vector.layout import Array

MAX_POSITIONS = 500_000
FIRST_POSITIONS = 4_000
"""Most boards need fewer, and arrays for many take milliseconds to make."""
MAX_MOVES = 4096
NOWHERE, GIVEN_UP = -1, -2


@rule
def pushes_needed(walls: Array, targets: Array, num_columns: int) -> Array:
    """From each cell, how many pushes take a box to the nearest target if nothing else is there; ``NOWHERE`` if none do."""
    needed = np.full(MAX_CELLS, NOWHERE, np.int64)
    queue, first, last = np.zeros(MAX_CELLS, np.int64), 0, 0
    for cell in range(MAX_CELLS):
        if targets[cell]:
            needed[cell] = 0
            queue[last] = cell
            last += 1
    while first < last:
        cell = queue[first]
        first += 1
        for action in range(1, 5):
            offset = offset_of(num_columns, action)
            # Pushed from here, by somebody who stands behind it.
            start, behind = cell - offset, cell - 2 * offset
            if not walls[start] and needed[start] == NOWHERE and not walls[behind]:
                needed[start] = needed[cell] + 1
                queue[last] = start
                last += 1
    return needed


@rule
def walk(blocked: Array, player: int, num_columns: int, distances: Array, queue: Array) -> None:
    """Find how many steps away each cell is; ``NOWHERE`` for those that cannot be reached."""
    distances[:] = NOWHERE
    distances[player], queue[0] = 0, player
    first, last = 0, 1
    while first < last:
        cell = queue[first]
        first += 1
        for action in range(1, 5):
            there = cell + offset_of(num_columns, action)
            if not blocked[there] and distances[there] == NOWHERE:
                distances[there] = distances[cell] + 1
                queue[last] = there
                last += 1


@rule
def place_of(table: Array, numbers: Array, number: int) -> int:
    """Where in a table of positions this one is, or is to be put. They are counted from 1, and 0 is an empty place."""
    place = number & (len(table) - 1)
    while table[place] > 0 and numbers[table[place] - 1] != number:
        place = (place + 1) & (len(table) - 1)
    return place


def search(
    walls: Array, targets: Array, boxes: Array, player: int, num_columns: int, max_positions: int
) -> tuple[int, Array]:
    """The pushes of a shortest solution, as the pushed box's cell and the direction, the last one first.

    Returns their number, ``NOWHERE`` if there is none, or ``GIVEN_UP``.
    """
    num_boxes = len(boxes)
    needed = pushes_needed(walls, targets, num_columns)
    # Positions, as a player's cell, boxes, and the push that led there.
    all_boxes = np.empty((max_positions, num_boxes), np.int16)
    players, parents = np.empty(max_positions, np.int16), np.empty(max_positions, np.int64)
    pushed, ways = np.empty(max_positions, np.int16), np.empty(max_positions, np.int8)
    moves, bounds = np.empty(max_positions, np.int64), np.empty(max_positions, np.int64)
    numbers, is_closed = np.empty(max_positions, np.int64), np.zeros(max_positions, np.bool_)
    table_size = 1024
    while table_size < 2 * max_positions:
        table_size *= 2
    table = np.zeros(table_size, np.int64)
    # What is waiting, in a list for every sum of moves and bound. A position may wait in several.
    max_waiting = 4 * max_positions
    heads = np.full(MAX_MOVES, NOWHERE, np.int64)
    waiting, following = np.empty(max_waiting, np.int64), np.empty(max_waiting, np.int64)
    distances, queue, blocked = np.empty(MAX_CELLS, np.int64), np.empty(MAX_CELLS, np.int64), walls.copy()
    pushes = np.zeros((MAX_MOVES, 2), np.int64)

    bound, number = 0, PLAYER_NUMBERS[player]
    for box in boxes:
        if needed[box] == NOWHERE:
            return NOWHERE, pushes
        bound += needed[box]
        number ^= BOX_NUMBERS[box]
    all_boxes[0], players[0], parents[0], moves[0], bounds[0], numbers[0] = boxes, player, NOWHERE, 0, bound, number
    table[place_of(table, numbers, number)] = 1
    waiting[0], following[0], heads[bound] = 0, NOWHERE, 0
    num_positions, num_waiting, total = 1, 1, bound
    while total < MAX_MOVES:
        entry = heads[total]
        if entry == NOWHERE:
            total += 1
            continue
        heads[total] = following[entry]
        here = waiting[entry]
        if is_closed[here]:
            continue
        is_closed[here] = True
        if bounds[here] == 0:
            count = 0
            while parents[here] != NOWHERE:
                pushes[count, 0], pushes[count, 1] = pushed[here], ways[here]
                count += 1
                here = parents[here]
            return count, pushes
        for box in all_boxes[here]:
            blocked[box] = True
        walk(blocked, players[here], num_columns, distances, queue)
        for index in range(num_boxes):
            box = all_boxes[here, index]
            for action in range(1, 5):
                offset = offset_of(num_columns, action)
                steps, there = distances[box - offset], box + offset
                if steps == NOWHERE or blocked[there] or needed[there] == NOWHERE:
                    continue
                number = numbers[here] ^ PLAYER_NUMBERS[players[here]] ^ PLAYER_NUMBERS[box]
                number ^= BOX_NUMBERS[box] ^ BOX_NUMBERS[there]
                its_moves = moves[here] + steps + 1
                place = place_of(table, numbers, number)
                position = table[place] - 1
                if position == NOWHERE:
                    if num_positions == max_positions:
                        return GIVEN_UP, pushes
                    position = num_positions
                    num_positions += 1
                    table[place], numbers[position] = num_positions, number
                elif is_closed[position] or moves[position] <= its_moves:
                    continue
                all_boxes[position] = all_boxes[here]
                all_boxes[position, index] = there
                players[position], parents[position], pushed[position], ways[position] = box, here, box, action
                moves[position], bounds[position] = its_moves, bounds[here] + needed[there] - needed[box]
                its_total = its_moves + bounds[position]
                if its_total >= MAX_MOVES or num_waiting == max_waiting:
                    return GIVEN_UP, pushes
                waiting[num_waiting], following[num_waiting] = position, heads[its_total]
                heads[its_total] = num_waiting
                num_waiting += 1
        for box in all_boxes[here]:
            blocked[box] = False
    return NOWHERE, pushes


_search = kernel(search, "the solver of Sokoban")


def solve(board: Array | str, max_positions: int = MAX_POSITIONS) -> list[int] | None:
    """The fewest moves that solve a board: numbers of actions, 1 up, 2 down, 3 left, 4 right.

    Args:
        board: codes of cells line by line, or a text of symbols.
        max_positions: after so many the search is given up.

    Returns:
        ``None`` if it cannot be solved, or not within ``max_positions``.
    """
    cells = board_of(board)
    num_columns = cells.shape[1]
    flat = np.zeros(MAX_CELLS, np.int64)
    flat[: cells.size] = cells.reshape(-1)
    walls, targets = flat == WALL, np.array([is_target(cell) for cell in flat.tolist()])
    boxes = np.flatnonzero([is_box(cell) for cell in flat.tolist()])
    player = int(np.flatnonzero(flat >= PLAYER)[0])
    limit, count = FIRST_POSITIONS, GIVEN_UP
    while count == GIVEN_UP and limit < 16 * max_positions:
        count, pushes = _search(walls, targets, boxes, player, num_columns, min(limit, max_positions))
        limit *= 16
    if count < 0:
        return None
    blocked = walls.copy()
    blocked[boxes] = True
    actions: list[int] = []
    for box, action in pushes[:count][::-1].tolist():
        offset = offset_of(num_columns, action)
        actions += [*_way(blocked, player, box - offset, num_columns), action]
        blocked[box], blocked[box + offset] = False, True
        player = box
    return actions


def _way(blocked: Array, start: int, end: int, num_columns: int) -> list[int]:
    """The actions of a shortest walk."""
    distances = np.empty(MAX_CELLS, np.int64)
    walk(blocked, start, num_columns, distances, np.empty(MAX_CELLS, np.int64))
    actions: list[int] = []
    while end != start:
        for action in range(1, 5):
            before = end - offset_of(num_columns, action)
            if distances[before] == distances[end] - 1 and distances[before] != NOWHERE:
                actions.append(action)
                end = before
                break
    return actions[::-1]
