"""What Blue sees: a table with a line for every host, written as 52 numbers.

::

    activity       nothing 00   scan 10      exploit 11                     of this step
    compromised    no 00        unknown 10   user 01      privileged 11     until something else is seen

There are three versions of the code that draws these conclusions from what the network has seen.
"""

from __future__ import annotations

from typing import Any

from shoal.envs.cage2.blue import REMOVE, RESTORE, host_of, verb_of
from shoal.envs.cage2.network import DEFENDER, NUM_HOSTS, OP_SERVER0, USER0, USER4
from shoal.envs.cage2.state import AS_ADMIN, AS_USER, CLEAN, DOUBTFUL, NOBODY, Game, bit, first_of, num_members
from shoal.envs.compiling import rule

QUIET, SCANNED, ATTACKED = 0, 1, 3
"""As bits of the observation, the first one being the lowest."""

OFFICIAL, CARDIFF, DEBUGGED = range(3)

BITS_PER_HOST = 4
NUM_BITS = BITS_PER_HOST * NUM_HOSTS
REMEMBERED = (*range(DEFENDER, 4), OP_SERVER0, *range(USER0, USER4 + 1))
"""The hosts of whose scans the challenge's winner keeps a memory."""
REMEMBERED_HOSTS = sum(1 << host for host in REMEMBERED)
MANY = 3


@rule
def look(game: Game, row: Any) -> None:
    """Blue draws its conclusions from this step."""
    action = int(row.blue_action)
    verb, host = verb_of(action), host_of(action)
    if verb == RESTORE:
        row.believed[host] = CLEAN
    elif verb == REMOVE and row.believed[host] != CLEAN:
        row.believed[host] = DOUBTFUL
    for each in range(NUM_HOSTS):
        row.activity[each] = QUIET
    scanned, eventful = NOBODY, int(row.eventful)
    while eventful:
        each = first_of(eventful)
        eventful &= eventful - 1
        activity = appearance(game, row, each)
        row.activity[each] = activity
        if activity == ATTACKED:
            if game.exploit_hides_privileged or row.believed[each] != AS_ADMIN:
                row.believed[each] = AS_USER
        elif activity == SCANNED and scanned == NOBODY and REMEMBERED_HOSTS & bit(each):
            scanned = each
    if row.analysed != NOBODY:
        # Blue looked before Red moved: what has been seen since is not unseen.
        analysed = int(row.analysed)
        if row.activity[analysed] != ATTACKED or row.finding == AS_ADMIN:
            row.believed[analysed] = row.finding
    if scanned != NOBODY:
        row.latest_scan = scanned
        row.scan_memory |= bit(scanned)


@rule
def appearance(game: Game, row: Any, host: int) -> int:
    """What the events on a host look like, and a decoy that Blue has just put up there."""
    events, ports = int(row.event_count[host]), int(row.event_ports[host])
    has_new_decoy = row.new_decoy == host
    if not events and game.sight != OFFICIAL:
        return QUIET
    if has_new_decoy:
        events += 1  # it is in the records too, without a port
    num_ports, calls_home = num_members(ports), row.beacons & bit(host) != 0
    if calls_home and game.sight == DEBUGGED:
        return ATTACKED
    if num_ports >= MANY:
        return SCANNED
    if calls_home or (events >= MANY and num_ports == 1):
        return ATTACKED
    return QUIET if has_new_decoy and game.sight != CARDIFF else SCANNED


@rule
def write_down(game: Game, row: Any, observation: Any) -> None:
    """The table as numbers, and the memory of scans: 1 for a host that has been scanned, 2 for the latest one."""
    place = 0
    for host in range(NUM_HOSTS):
        activity, believed = int(row.activity[host]), int(row.believed[host])
        observation[place] = activity & 1
        observation[place + 1] = activity >> 1
        observation[place + 2] = believed & 1
        observation[place + 3] = believed >> 1
        place += BITS_PER_HOST
    if game.has_scan_memory:
        for host in REMEMBERED:
            observation[place] = 2 if host == row.latest_scan else 1 if row.scan_memory & bit(host) else 0
            place += 1
