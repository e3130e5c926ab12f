"""What Red can do, always from its session on User0."""

from __future__ import annotations

from typing import Any

from shoal.envs.cage2.network import (
    ADMIN_SESSION,
    BRUTE_FORCE,
    ENTERPRISE0,
    ENTERPRISE1,
    ENTERPRISE2,
    NO_SERVICE,
    NUM_DECOYS,
    NUM_EXPLOITS,
    NUM_HOSTS,
    OP_SERVER0,
    PORT_22,
    PORTS,
    REFUSED,
    SQL_INJECTION,
    USER1,
    USER2,
    USER3,
    USER4,
    WEB_PORTS,
    Subnet,
)
from shoal.envs.cage2.state import (
    DISCOVER_SERVICES,
    DISCOVER_SYSTEMS,
    ESCALATE,
    EXPLOIT,
    IMPACT,
    NOBODY,
    Game,
    Picks,
    bit,
    member,
    note_events,
    note_scan,
    num_members,
    num_sessions,
    picked,
)
from shoal.envs.chance import below, uniform
from shoal.envs.compiling import rule

PREFERENCE = 0.75
"""How likely Red uses the exploit that it prefers, if it has the choice."""
DETECTION = 0.95
"""How likely the network sees something call home after an exploit."""
HARAKA = 1
GUESSES = 10
"""Connections that trying passwords makes."""
NEW_PORT = 1 << len(PORTS)
"""That something opens to call home, and that no other uses."""
OPERATIONAL = int(Subnet.OPERATIONAL)


@rule
def carry_out(game: Game, row: Any, action: int, target: int, picks: Picks) -> bool:
    """Do something; returns whether it was a success."""
    if action == DISCOVER_SYSTEMS:
        return discover_systems(game, row, target)
    if action == DISCOVER_SERVICES:
        return discover_services(game, row, target)
    if action == EXPLOIT:
        return exploit(game, row, target, picks)
    if action == ESCALATE:
        return escalate(game, row, target, picks)
    if action == IMPACT:
        return impact(game, row)
    return False


@rule
def can_reach(game: Game, row: Any, subnet: int) -> bool:
    """The operational network can be reached from a host of the enterprise alone."""
    if subnet != OPERATIONAL:
        return True
    return (
        num_sessions(row, ENTERPRISE0) > 0 or num_sessions(row, ENTERPRISE1) > 0 or num_sessions(row, ENTERPRISE2) > 0
    )


@rule
def discover_systems(game: Game, row: Any, subnet: int) -> bool:
    """Find all hosts of a subnet."""
    if not can_reach(game, row, subnet):
        return False
    for host in range(NUM_HOSTS):
        if game.subnet[host] == subnet:
            row.seen_hosts |= bit(host)
    return True


@rule
def discover_services(game: Game, row: Any, host: int) -> bool:
    """Find the ports on which a host listens."""
    if not can_reach(game, row, game.subnet[host]):
        return bool(game.blind_scan_succeeds)
    known = int(row.known_ports[host]) if game.ports_are_never_forgotten else 0
    row.known_ports[host] = known | int(row.listening[host])
    note_scan(row, host)
    return True


@rule
def options_of(game: Game, row: Any, host: int) -> int:
    """The exploits that the ports of a host seem to allow, as Red knows them."""
    ports, options = int(row.known_ports[host]), 0
    for number in range(NUM_EXPLOITS):
        if ports & game.exploit_port[number] and (number != SQL_INJECTION or ports & WEB_PORTS):
            options |= bit(number)
    return options


@rule
def choose_exploit(row: Any, options: int) -> int:
    """Mostly the one that Red prefers, otherwise any of the others."""
    count = num_members(options)
    if count == 1 or uniform(row) < PREFERENCE:
        return member(options, 0)
    return member(options, 1 + below(row, count - 1))


@rule
def exploit(game: Game, row: Any, host: int, picks: Picks) -> bool:
    """Break into a host."""
    options = options_of(game, row, host)
    if not options:
        return False
    chosen = choose_exploit(row, options) if picks.exploit == NOBODY else picked(options, picks.exploit)
    row.red_exploit = chosen
    if not can_reach(game, row, game.subnet[host]):
        return False
    port, breach = game.exploit_port[chosen], game.breach[host, chosen]
    if chosen == HARAKA and game.restore_breaks_smtp and row.restored & bit(host) and breach != NO_SERVICE:
        return False
    if breach == NO_SERVICE:
        if is_caught(game, row, host, chosen):
            note_events(row, host, port, GUESSES if chosen == BRUTE_FORCE else 2)
        return False
    if chosen == BRUTE_FORCE:
        note_events(row, host, PORT_22, GUESSES)
        if breach == REFUSED:
            return False
        note_events(row, host, PORT_22, 1)
        row.unseen_sessions[host] += 1
        return True
    row.files |= bit(host)
    row.was_detected = uniform(row) < DETECTION if picks.detected == NOBODY else picks.detected == 1
    note_events(row, host, port, 1)
    if row.was_detected:
        note_events(row, host, NEW_PORT, 1)
        row.beacons |= bit(host)
    if breach == ADMIN_SESSION:
        row.admin_sessions[host] += 1
    elif row.was_detected:
        row.seen_sessions[host] += 1
    else:
        row.unseen_sessions[host] += 1
    return True


@rule
def is_caught(game: Game, row: Any, host: int, chosen: int) -> bool:
    """Whether a decoy is there for this exploit."""
    for kind in range(NUM_DECOYS):  # noqa: SIM110 - compiled code has no generators
        if row.decoys[host] & bit(kind) and game.decoy_exploit[kind] == chosen:
            return True
    return False


@rule
def escalate(game: Game, row: Any, host: int, picks: Picks) -> bool:
    """Get full control of a host on which Red is, and learn where to go from there."""
    if not num_sessions(row, host):
        return False
    if not row.admin_sessions[host]:
        seen, unseen = int(row.seen_sessions[host]), int(row.unseen_sessions[host])
        is_seen = below(row, seen + unseen) < seen if picks.seen_session == NOBODY else picks.seen_session == 1
        if is_seen:
            row.seen_sessions[host] -= 1
        else:
            row.unseen_sessions[host] -= 1
        row.admin_sessions[host] = 1
        row.files |= bit(host)
    row.seen_subnets |= bit(game.subnet[host])
    if host in (USER1, USER2):
        row.seen_hosts |= bit(ENTERPRISE1)
    elif host in (USER3, USER4):
        row.seen_hosts |= bit(ENTERPRISE0)
    elif host == ENTERPRISE2:
        row.seen_hosts |= bit(OP_SERVER0)
    elif host == OP_SERVER0:
        row.knows_service = True
    return True


@rule
def impact(game: Game, row: Any) -> bool:
    """Stop the service on Op_Server0."""
    if not row.knows_service or not num_sessions(row, OP_SERVER0):
        return False
    if not (game.restore_protects_op_server and row.restored & bit(OP_SERVER0)):
        row.service_runs = False
    return True
