"""What Blue can do: 145 actions in the official order.

::

    0 Sleep    1 Monitor    then 13 of each, one for every host:
    2 Analyse    15 Remove    28 ... 131 the eight decoys    132 Restore
"""

from __future__ import annotations

from typing import Any

from shoal.envs.cage2.network import DECOYS, NAMES, NUM_DECOYS, NUM_HOSTS, OP_SERVER0, USER0
from shoal.envs.cage2.state import (
    AS_ADMIN,
    AS_USER,
    CLEAN,
    FAILED,
    NOBODY,
    SUCCEEDED,
    UNKNOWN,
    Game,
    bit,
    num_sessions,
    without,
)
from shoal.envs.compiling import rule

DO_NOTHING, MONITOR = 0, 1
FIRST_OF_A_HOST = 2
ANALYSE, REMOVE, FIRST_DECOY = range(3)
RESTORE = FIRST_DECOY + NUM_DECOYS
NUM_ACTIONS = FIRST_OF_A_HOST + NUM_HOSTS * (RESTORE + 1)

ACTION_NAMES = (
    "Sleep",
    "Monitor",
    *(
        f"{verb} {host}"
        for verb in ("Analyse", "Remove", *(f"Decoy{decoy.name}" for decoy in DECOYS), "Restore")
        for host in NAMES
    ),
)


@rule
def verb_of(action: int) -> int:
    """What an action does to its host; ``NOBODY`` if it has none."""
    return NOBODY if action < FIRST_OF_A_HOST else (action - FIRST_OF_A_HOST) // NUM_HOSTS


@rule
def host_of(action: int) -> int:
    """The host of an action that has one."""
    return (action - FIRST_OF_A_HOST) % NUM_HOSTS


@rule
def official(game: Game, row: Any, action: int) -> int:
    """The official number of an action.

    For a decoy on a host, that of the first kind that is not up there; once all are, of the first one again, as the winner
    does in training.
    """
    chosen = int(game.actions[action])
    if chosen >= 0:
        return chosen
    host = -1 - chosen
    next_kind = int(game.decoy_order[host, 0])
    for kind in game.decoy_order[host]:
        if kind != NOBODY and not row.decoys[host] & bit(kind):
            next_kind = int(kind)
            break
    return FIRST_OF_A_HOST + NUM_HOSTS * (FIRST_DECOY + next_kind) + host


@rule
def act_blue(game: Game, row: Any, action: int) -> None:
    """Blue does something."""
    row.blue_action = action
    row.new_decoy = row.analysed = NOBODY
    verb = verb_of(action)
    row.blue_success = UNKNOWN if action == DO_NOTHING else SUCCEEDED
    if verb == NOBODY:
        return
    host = host_of(action)
    if verb == ANALYSE:
        analyse(game, row, host)
    elif verb == REMOVE:
        row.seen_sessions[host] = 0
        if not game.remove_leaves_files and not num_sessions(row, host):
            row.files = without(row.files, bit(host))
    elif verb == RESTORE:
        restore(game, row, host)
    elif not has_put_up(game, row, host, verb - FIRST_DECOY):
        row.blue_success = FAILED


@rule
def analyse(game: Game, row: Any, host: int) -> None:
    """Look at a host closely."""
    if not game.analyse_sees_files_only:
        row.analysed = host
        row.finding = AS_ADMIN if row.admin_sessions[host] else AS_USER if num_sessions(row, host) else CLEAN
    elif row.files & bit(host):
        row.analysed, row.finding = host, AS_ADMIN


@rule
def restore(game: Game, row: Any, host: int) -> None:
    """Let a host be as nobody has touched it. What Red knows of it, it goes on knowing."""
    row.admin_sessions[host] = 1 if host == USER0 else 0
    row.seen_sessions[host] = row.unseen_sessions[host] = 0
    row.files = without(row.files, bit(host))
    row.decoys[host] = 0
    row.listening[host] = game.listening[host]
    row.restored |= bit(host)
    if host == OP_SERVER0:
        row.service_runs = True


@rule
def has_put_up(game: Game, row: Any, host: int, kind: int) -> bool:
    """Put up a decoy, if the host's system and a free port allow it."""
    if not game.decoy_fits[kind, host] or int(row.listening[host]) & game.decoy_free_port[kind]:
        return False
    row.decoys[host] |= bit(kind)
    row.listening[host] |= game.decoy_port[kind]
    row.new_decoy = host
    row.eventful |= bit(host)
    return True
