"""What a game remembers, and what all games share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from shoal.envs.cage2.network import NUM_HOSTS, USER0, Network
from shoal.envs.cage2.quirks import Quirks
from shoal.envs.compiling import rule
from shoal.vector.layout import Array

EACH = (NUM_HOSTS,)

# Signed, although all but a few are sets and counts: compiled code would make a float of an unsigned and a signed number.
FIELDS = (
    # -- the hosts
    ("listening", "i2", EACH),  # ports, decoys' included
    ("decoys", "i2", EACH),  # which kinds have been put up
    ("admin_sessions", "i4", EACH),  # Red's, with full control
    ("seen_sessions", "i4", EACH),  # Red's without it, of which Blue knows the process
    ("unseen_sessions", "i4", EACH),  # and of which Blue does not
    ("files", "i2"),  # hosts with a malicious file
    ("restored", "i2"),  # hosts that have ever been restored
    ("service_runs", "?"),  # OTService, on Op_Server0
    # -- what happened in this step, as the network saw it
    ("eventful", "i2"),  # hosts on which anything happened
    ("event_count", "i1", EACH),
    ("event_ports", "i2", EACH),
    ("beacons", "i2"),  # hosts from which something called home
    ("new_decoy", "i1"),  # the host on which Blue has put up a decoy, or NOBODY
    ("analysed", "i1"),  # the host on which Blue's Analyse found something out, or NOBODY
    ("finding", "i1"),  # and what that was
    # -- what Blue believes
    ("activity", "i1", EACH),
    ("believed", "i1", EACH),
    ("scan_memory", "i2"),  # hosts on which a scan was ever seen
    ("latest_scan", "i1"),
    # -- what Red knows
    ("known_ports", "i2", EACH),
    ("knows_service", "?"),
    ("stage", "i1"),  # B_line: how far the attack is
    ("foothold", "i1"),  # B_line: the user's machine that it goes through
    ("seen_subnets", "i1"),  # and all that follow, Meander
    ("scanned_subnets", "i1"),
    ("seen_hosts", "i2"),
    ("scanned_hosts", "i2"),
    ("exploited", "i2"),
    ("escalated", "i2"),
    ("mapped", "i2"),  # hosts into which Red has broken at least once
    # -- what everybody did in this step
    ("red_action", "i1"),
    ("red_target", "i1"),
    ("red_exploit", "i1"),
    ("red_success", "i1"),
    ("was_detected", "?"),
    ("green_target", "i1"),
    ("blue_action", "i2"),
    ("blue_success", "i1"),
)

NOBODY = -1
UNKNOWN, FAILED, SUCCEEDED = -1, 0, 1
"""Whether an action was a success."""

CLEAN, DOUBTFUL, AS_USER, AS_ADMIN = range(4)
"""What Blue believes of a host, as bits of its observation."""

SLEEP, DISCOVER_SYSTEMS, DISCOVER_SERVICES, EXPLOIT, ESCALATE, IMPACT = range(6)
"""What Red can do."""


Game = Any
"""What all games share, as :func:`game_of` makes it."""


def game_of(network: Network, quirks: Quirks, settings: Settings) -> Game:
    """One record of all: to hand it from rule to rule costs nothing, while each array of a tuple would be counted."""
    values = {**network._asdict(), **quirks._asdict(), **settings._asdict()}
    types = [(name, np.asarray(value).dtype, np.shape(value)) for name, value in values.items()]
    game = np.zeros(1, np.dtype(types, align=True)).view(np.recarray)
    for name, value in values.items():
        game[name][0] = value
    return game[0]


class Settings(NamedTuple):
    """What can be chosen, beside quirks."""

    red: int
    green: int
    sight: int
    has_scan_memory: bool
    actions: Array
    """The official number of every action of Blue's; a decoy on host h, whichever is next, is ``-1 - h``."""
    decoy_order: Array
    """The kinds of decoy to put up on every host, one after the other; then ``NOBODY``."""


class Picks(NamedTuple):
    """What chance would decide, where somebody has decided it already; ``NOBODY`` where nobody has."""

    green: int
    """The host that Green scans, or ``NOBODY_ELSE`` if it does nothing."""
    target: int
    """The host that Red chooses."""
    exploit: int
    detected: int
    seen_session: int
    """Whether the session that is escalated is one of which Blue knows the process."""


NOTHING_PICKED = Picks(NOBODY, NOBODY, NOBODY, NOBODY, NOBODY)
NO_SCAN = NUM_HOSTS
"""As Green's host: it scans nobody."""


@rule
def bit(number: int) -> int:
    """A set with one member."""
    return 1 << number


@rule
def without(numbers: int, others: int) -> int:
    """What is in the first set and not in the second one."""
    return int(numbers) & (0xFFFF ^ int(others))


@rule
def num_members(numbers: int) -> int:
    """How many are in a set."""
    left, count = int(numbers), 0
    while left:
        left &= left - 1
        count += 1
    return count


@rule
def first_of(numbers: int) -> int:
    """The lowest member of a set that has some."""
    left, number = int(numbers), 0
    while not left & 1:
        left >>= 1
        number += 1
    return number


@rule
def member(numbers: int, place: int) -> int:
    """One of the members of a set, by its place among them."""
    left = int(numbers)
    for _ in range(place):
        left &= left - 1
    return first_of(left)


@rule
def picked(numbers: int, pick: int) -> int:
    """What was picked, if it can be; else nobody, so that it is noticed."""
    return pick if int(numbers) & bit(pick) else NOBODY


@rule
def num_sessions(row: Any, host: int) -> int:
    """How many sessions Red has on a host."""
    return int(row.admin_sessions[host]) + int(row.seen_sessions[host]) + int(row.unseen_sessions[host])


@rule
def note_events(row: Any, host: int, ports: int, count: int) -> None:
    """The network sees connections to these ports of a host."""
    row.eventful |= bit(host)
    row.event_ports[host] |= ports
    row.event_count[host] += count


@rule
def note_scan(row: Any, host: int) -> None:
    """The network sees one connection to each port on which a host listens."""
    # Two processes on one port make two, but never decide what Blue sees.
    note_events(row, host, int(row.listening[host]), num_members(row.listening[host]))


@rule
def begin(game: Game, row: Any) -> None:
    """Everything is as nobody has touched it, but for Red's session on User0, which nobody can end."""
    for host in range(NUM_HOSTS):
        row.listening[host] = game.listening[host]
        row.decoys[host] = 0
        row.admin_sessions[host] = 1 if host == USER0 else 0
        row.seen_sessions[host] = row.unseen_sessions[host] = 0
        row.known_ports[host] = 0
        row.activity[host] = row.believed[host] = 0
        row.event_count[host], row.event_ports[host] = 0, 0
    row.files = row.restored = row.beacons = row.eventful = 0
    row.service_runs, row.knows_service = True, False
    row.new_decoy = row.analysed = row.latest_scan = NOBODY
    row.scan_memory = row.finding = 0
    row.stage, row.foothold = 0, NOBODY
    row.seen_subnets, row.scanned_subnets = bit(2), 0
    row.seen_hosts, row.scanned_hosts = bit(USER0), 0
    row.exploited = row.escalated = row.mapped = 0
    row.red_action, row.red_target, row.red_exploit = SLEEP, NOBODY, NOBODY
    row.red_success = row.blue_success = UNKNOWN
    row.was_detected, row.green_target, row.blue_action = False, NOBODY, 0
