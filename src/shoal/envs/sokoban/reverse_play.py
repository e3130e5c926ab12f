"""A level, played backwards from its solution: the player pulls boxes off their targets. What was pulled can be pushed back.

The search goes deep first, and never twice to the same place. Of all positions in which no box is on a target it keeps the
one with the greatest score: how often the player turned to another box, times how far the boxes are from their targets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.envs.chance import below
from shoal.envs.compiling import rule
from shoal.envs.sokoban.cells import MAX_CELLS, TARGET, WALL, Room, offset_of
from shoal.vector.layout import Array

MAX_POSITIONS = 20_000
"""After so many the search ends, with the best that it has seen."""
SMALLEST_SET = 1024

# Every position has a number: what its player and its boxes contribute, combined. Two of 64 bits are hardly ever alike, and
# then one of them would not be looked at, no more.
_NUMBERS = np.random.default_rng(0).integers(1, 2**62, (2, MAX_CELLS))
PLAYER_NUMBERS, BOX_NUMBERS = _NUMBERS


@rule
def add(numbers: Array, number: int) -> bool:
    """Add a number to a set; returns whether it is new."""
    place = number & (len(numbers) - 1)
    while numbers[place] != 0:
        if numbers[place] == number:
            return False
        place = (place + 1) & (len(numbers) - 1)
    numbers[place] = number
    return True


@rule
def enlarged(numbers: Array) -> Array:
    """The same set with twice the room."""
    larger = np.zeros(2 * len(numbers), np.int64)
    for number in numbers:
        if number != 0:
            add(larger, number)
    return larger


@rule
def distance(num_columns: int, one: int, other: int) -> int:
    """How many steps apart two cells are."""
    return abs(one // num_columns - other // num_columns) + abs(one % num_columns - other % num_columns)


@rule
def shuffled_offsets(room: Room, row: Any) -> Array:
    """The four directions in any order, so that no level prefers one."""
    offsets = np.array([offset_of(room.num_columns, action) for action in range(1, 5)])
    for place in range(3):
        other = place + below(row, 4 - place)
        kept = offsets[other]
        offsets[other] = offsets[place]
        offsets[place] = kept
    return offsets


@rule
def play_backwards(room: Room, row: Any, ground: Array, places: Array) -> int:
    """Move the player and the boxes, which begin on their targets, to where a level is to begin.

    ``places`` has the player's cell and then those of the boxes. Returns how far the boxes are from their targets together;
    0 if no position was found without a box on a target.
    """
    offsets = shuffled_offsets(room, row)
    boxes, best = places[1:].copy(), places.copy()
    box_at = np.full(MAX_CELLS, -1, np.int64)
    player, number = places[0], PLAYER_NUMBERS[places[0]]
    for box in range(len(boxes)):
        box_at[boxes[box]] = box
        number ^= BOX_NUMBERS[boxes[box]]
    seen, num_seen = np.zeros(SMALLEST_SET, np.int64), 1
    add(seen, number)
    # By depth: what is to be tried next, and how to take back the move that led there.
    tried = np.zeros(room.search_depth + 1, np.int64)
    offset_before = np.zeros(room.search_depth + 1, np.int64)
    box_before = np.zeros(room.search_depth + 1, np.int64)
    last_before = np.zeros(room.search_depth + 1, np.int64)
    depth, last, num_turns, away, num_home, best_score, best_away = 0, -1, 0, 0, len(boxes), 0, 0
    while True:
        if tried[depth] == 8:
            if depth == 0:
                break
            offset, box = offset_before[depth], box_before[depth]
            number ^= PLAYER_NUMBERS[player] ^ PLAYER_NUMBERS[player - offset]
            player -= offset
            if box >= 0:
                # The box goes back from where the player is now, to behind him.
                home = places[1 + box]
                away += distance(room.num_columns, player - offset, home) - distance(room.num_columns, player, home)
                num_home += int(ground[player - offset] == TARGET) - int(ground[player] == TARGET)
                number ^= BOX_NUMBERS[player] ^ BOX_NUMBERS[player - offset]
                box_at[player], box_at[player - offset], boxes[box] = -1, box, player - offset
                if last_before[depth] != box:
                    num_turns -= 1
                last = last_before[depth]
            depth -= 1
            continue
        offset, pulls = offsets[tried[depth] % 4], tried[depth] < 4
        tried[depth] += 1
        there, behind = player + offset, player - offset
        box = box_at[behind] if pulls else -1
        if ground[there] == WALL or box_at[there] >= 0 or (pulls and box < 0) or depth + 1 >= room.search_depth:
            continue
        next_number = number ^ PLAYER_NUMBERS[player] ^ PLAYER_NUMBERS[there]
        if box >= 0:
            next_number ^= BOX_NUMBERS[behind] ^ BOX_NUMBERS[player]
        if not add(seen, next_number):
            continue
        num_seen += 1
        if 2 * num_seen > len(seen):
            seen = enlarged(seen)
        depth += 1
        tried[depth], offset_before[depth], box_before[depth], last_before[depth] = 0, offset, box, last
        if box >= 0:
            home = places[1 + box]
            away += distance(room.num_columns, player, home) - distance(room.num_columns, behind, home)
            num_home += int(ground[player] == TARGET) - int(ground[behind] == TARGET)
            box_at[behind], box_at[player], boxes[box] = -1, box, player
            if last != box:
                num_turns += 1
            last = box
        player, number = there, next_number
        if num_home == 0 and num_turns * away > best_score:
            best_score, best_away, best[0], best[1:] = num_turns * away, away, player, boxes
        if num_seen >= MAX_POSITIONS:
            break
    places[:] = best
    return best_away
