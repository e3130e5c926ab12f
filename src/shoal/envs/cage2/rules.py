"""A step of the game, from Blue's move to what Blue sees of it."""

from __future__ import annotations

from typing import Any

from shoal.envs.cage2.attackers import act_red
from shoal.envs.cage2.blue import RESTORE, act_blue, official, verb_of
from shoal.envs.cage2.network import ENTERPRISE0, NUM_HOSTS, USER0
from shoal.envs.cage2.sight import look, write_down
from shoal.envs.cage2.state import NO_SCAN, NOBODY, NOTHING_PICKED, Game, Picks, begin, note_scan
from shoal.envs.chance import below, uniform
from shoal.envs.compiling import rule

SERVICE_TENTHS, RESTORE_TENTHS = 100, 10
"""What it costs, in tenths, that OTService does not run, and that Blue restores a host."""

GREEN_SLEEPS, GREEN_SCANS = range(2)
IDLENESS = 0.5
"""How likely Green does nothing in a step."""
NUM_SERVERS, NUM_USERS = 3, 5


@rule
def play(game: Game, row: Any, action: int, picks: Picks) -> float:
    """Everybody moves once; returns Blue's reward."""
    for host in range(NUM_HOSTS):
        row.event_count[host], row.event_ports[host] = 0, 0
    row.beacons = row.eventful = 0
    act_blue(game, row, action)
    act_green(game, row, picks)
    act_red(game, row, picks)
    look(game, row)
    return reward_of(game, row)


@rule
def act_green(game: Game, row: Any, picks: Picks) -> None:
    """A user scans some host of its own subnet or of the enterprise, and means no harm."""
    row.green_target = NOBODY
    if picks.green != NOBODY:
        if picks.green == NO_SCAN:
            return
        row.green_target = picks.green
    elif game.green == GREEN_SLEEPS or uniform(row) < IDLENESS:
        return
    else:
        number = below(row, NUM_USERS + NUM_SERVERS)
        row.green_target = USER0 + number if number < NUM_USERS else ENTERPRISE0 + number - NUM_USERS
    note_scan(row, int(row.green_target))


@rule
def reward_of(game: Game, row: Any) -> float:
    """What Red has costs, and so does restoring."""
    tenths = 0 if row.service_runs else SERVICE_TENTHS
    for host in range(NUM_HOSTS):
        if row.admin_sessions[host]:
            tenths += game.tenths[host]
    if verb_of(int(row.blue_action)) == RESTORE:
        tenths += RESTORE_TENTHS
    return -tenths / 10.0


def begin_row(game: Game, row: Any, info: Any) -> None:
    """Begin an episode."""
    begin(game, row)


def step_row(game: Game, row: Any, action: int, info: Any) -> tuple[float, bool]:
    """Take a step. The game has no end."""
    return play(game, row, official(game, row, action), NOTHING_PICKED), False


def observe_row(game: Game, row: Any, observation: Any) -> None:
    """What Blue sees."""
    write_down(game, row, observation)
