"""The attackers: what Red does next.

``B_line`` knows the way: a user's machine, the enterprise, the server of the operational network. ``Meander`` tries whatever it
has found. Both go back when something fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.envs.cage2.network import (
    ENTERPRISE0,
    ENTERPRISE1,
    ENTERPRISE2,
    HOSTS,
    OP_SERVER0,
    USER0,
    USER1,
    USER2,
    USER3,
    USER4,
    Subnet,
)
from shoal.envs.cage2.red import carry_out
from shoal.envs.cage2.state import (
    DISCOVER_SERVICES,
    DISCOVER_SYSTEMS,
    ESCALATE,
    EXPLOIT,
    FAILED,
    IMPACT,
    NOBODY,
    SLEEP,
    SUCCEEDED,
    Game,
    Picks,
    bit,
    member,
    num_members,
    picked,
    without,
)
from shoal.envs.chance import below
from shoal.envs.compiling import rule

B_LINE, MEANDER, SLEEPING = range(3)

# B_line's attack: at every stage an action, its target, and the stage to go back to when it has failed.
_FOOTHOLD, _GATEWAY = -1, -2
_PLAN = (
    (DISCOVER_SYSTEMS, int(Subnet.USER), 0),
    (DISCOVER_SERVICES, _FOOTHOLD, 1),
    (EXPLOIT, _FOOTHOLD, 2),
    (ESCALATE, _FOOTHOLD, 2),
    (DISCOVER_SERVICES, _GATEWAY, 2),
    (EXPLOIT, _GATEWAY, 2),
    (ESCALATE, _GATEWAY, 5),
    (DISCOVER_SYSTEMS, int(Subnet.ENTERPRISE), 5),
    (DISCOVER_SERVICES, ENTERPRISE2, 5),
    (EXPLOIT, ENTERPRISE2, 5),
    (ESCALATE, ENTERPRISE2, 9),
    (DISCOVER_SERVICES, OP_SERVER0, 9),
    (EXPLOIT, OP_SERVER0, 9),
    (ESCALATE, OP_SERVER0, 12),
    (IMPACT, OP_SERVER0, 13),
)
PLAN = np.array(_PLAN)
LAST_STAGE, SCAN_FOOTHOLD, ATTACK_SERVER = 14, 1, 12
FOOTHOLDS = 1 << USER1 | 1 << USER2 | 1 << USER3 | 1 << USER4

ENTERPRISE_HOSTS = 1 << ENTERPRISE0 | 1 << ENTERPRISE1 | 1 << ENTERPRISE2  # Meander goes by names: not Defender
OPERATIONAL_HOSTS = sum(1 << number for number, host in enumerate(HOSTS) if host.subnet is Subnet.OPERATIONAL)
NUM_SUBNETS = len(Subnet)


@rule
def act_red(game: Game, row: Any, picks: Picks) -> None:
    """Red chooses by what came of its last action, and does something."""
    if game.red == SLEEPING:
        return
    action, target = next_of_b_line(row, picks) if game.red == B_LINE else next_of_meander(row, picks)
    row.red_action, row.red_target, row.red_exploit, row.was_detected = action, target, NOBODY, False
    row.red_success = SUCCEEDED if carry_out(game, row, action, target, picks) else FAILED


@rule
def next_of_b_line(row: Any, picks: Picks) -> tuple[int, int]:
    """One stage further, or back."""
    stage = int(row.stage)
    stage = min(stage + 1, LAST_STAGE) if row.red_success == SUCCEEDED else PLAN[stage, 2]
    if stage == ATTACK_SERVER and not row.known_ports[OP_SERVER0]:
        stage = SCAN_FOOTHOLD  # its scan has shown nothing: from the beginning
    row.stage = stage
    action, target = PLAN[stage, 0], PLAN[stage, 1]
    if target == _FOOTHOLD:
        if row.foothold == NOBODY:
            row.foothold = any_of(row, FOOTHOLDS, picks)
        target = int(row.foothold)
    elif target == _GATEWAY:
        target = ENTERPRISE1 if row.foothold in (USER1, USER2) else ENTERPRISE0
    return action, target


@rule
def next_of_meander(row: Any, picks: Picks) -> tuple[int, int]:
    """Whatever has been found and not been tried, the last step of an attack first."""
    draw_conclusions(row)
    if row.escalated & bit(OP_SERVER0):
        return IMPACT, OP_SERVER0
    for subnet in range(NUM_SUBNETS):
        if without(row.seen_subnets, row.scanned_subnets) & bit(subnet):
            row.scanned_subnets |= bit(subnet)
            return DISCOVER_SYSTEMS, subnet
    unscanned = without(row.seen_hosts, row.scanned_hosts)
    if unscanned:
        host = any_of(row, unscanned, picks)
        row.scanned_hosts |= bit(host)
        return DISCOVER_SERVICES, host
    # Who has been exploited once is known by name, and so is User0.
    inside = (int(row.mapped) & int(row.exploited)) | without(bit(USER0), row.mapped)
    unescalated = without(inside, row.escalated)
    if unescalated:
        host = any_of(row, unescalated, picks)
        row.escalated |= bit(host)
        return ESCALATE, host
    unexploited = without(row.seen_hosts, row.exploited)
    if unexploited:
        host = any_of(row, unexploited, picks)
        row.exploited |= bit(host)
        return EXPLOIT, host
    return SLEEP, NOBODY


@rule
def any_of(row: Any, hosts: int, picks: Picks) -> int:
    """One of these, each as likely as the others."""
    if picks.target == NOBODY:
        return member(hosts, below(row, num_members(hosts)))
    return picked(hosts, picks.target)


@rule
def draw_conclusions(row: Any) -> None:
    """What the last action says of what Red still has."""
    if row.red_target == NOBODY:
        return
    target = bit(int(row.red_target))
    if row.red_action == EXPLOIT:
        if row.red_success == SUCCEEDED:
            row.mapped |= target
            return
        row.exploited = without(row.exploited, target)
        lost = OPERATIONAL_HOSTS if row.escalated & OPERATIONAL_HOSTS else ENTERPRISE_HOSTS
        if row.escalated & lost:
            lost &= int(row.escalated)
            row.escalated, row.exploited = without(row.escalated, lost), without(row.exploited, lost)
    elif row.red_action in (ESCALATE, IMPACT) and row.red_success == FAILED:
        row.escalated = without(row.escalated, target)
        if row.mapped & target:
            row.exploited = without(row.exploited, target)
