"""What is really the case in a game, as a structured array and in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.envs.cage2.blue import ACTION_NAMES
from shoal.envs.cage2.network import (
    EXPLOITS,
    HOSTS,
    NUM_DECOYS,
    NUM_HOSTS,
    OP_SERVER0,
    PORTS,
    Decoy,
    Host,
    Subnet,
    decoys_of,
    hosts_of,
)
from shoal.envs.cage2.quirks import Quirks
from shoal.envs.cage2.state import DISCOVER_SYSTEMS, NOBODY, SLEEP, UNKNOWN
from shoal.vector.layout import Array

TRUE_STATE = np.dtype(
    [
        ("episode", "i8"),
        ("step", "i8"),
        ("access", "i1", (NUM_HOSTS,)),  # 0 none, 1 user, 2 privileged
        ("sessions", "i4", (NUM_HOSTS, 3)),  # Red's: privileged, user whose process Blue knows, user whose it does not
        ("decoys", "?", (NUM_HOSTS, NUM_DECOYS)),
        ("ports", "?", (NUM_HOSTS, len(PORTS))),  # on which hosts listen
        ("files", "?", (NUM_HOSTS,)),  # malicious ones
        ("ot_service", "?"),  # whether it runs
        ("blue_action", "i2"),  # in the official order
        ("blue_success", "i1"),  # 1, 0, or -1 for unknown
        ("green_target", "i1"),  # the host that was scanned, or -1
        ("red_action", "i1"),  # 0 Sleep, 1 discover systems, 2 discover services, 3 exploit, 4 escalate, 5 impact
        ("red_target", "i1"),  # a host, or a subnet for action 1, or -1
        ("red_exploit", "i1"),
        ("red_success", "i1"),
    ]
)
RED_ACTIONS = (
    "Sleep",
    "DiscoverRemoteSystems",
    "DiscoverNetworkServices",
    "ExploitRemoteService",
    "PrivilegeEscalate",
    "Impact",
)
_SUCCESS = {1: True, 0: False, UNKNOWN: None}


def true_states_of(rows: Any) -> Array:
    """The true states of some rows, as an array of :data:`TRUE_STATE`."""
    states = np.zeros(len(rows), TRUE_STATE)
    states["episode"], states["step"] = rows.episode, rows.steps
    states["sessions"] = np.stack([rows.admin_sessions, rows.seen_sessions, rows.unseen_sessions], axis=-1)
    has_sessions = states["sessions"].any(axis=-1)
    states["access"] = np.where(rows.admin_sessions > 0, 2, has_sessions)
    states["decoys"] = _members(rows.decoys, NUM_DECOYS)
    states["ports"] = _members(rows.listening, len(PORTS))
    states["files"] = _members(rows.files, NUM_HOSTS)
    states["ot_service"] = rows.service_runs
    for name in (
        "blue_action",
        "blue_success",
        "green_target",
        "red_action",
        "red_target",
        "red_exploit",
        "red_success",
    ):
        states[name] = rows[name]
    return states


def _members(sets: Array, size: int) -> Array:
    """Sets that are numbers as rows of booleans."""
    return np.asarray((sets[..., None] >> np.arange(size)) & 1, np.bool_)


def as_dictionary(state: Any, quirks: Quirks) -> dict[str, Any]:
    """One true state in words: for every host its system, its subnet, its processes, Red's sessions and malicious files."""
    decoys = decoys_of(quirks)
    return {
        "success": _SUCCESS[int(state["blue_success"])],
        "step": int(state["step"]),
        "blue_action": ACTION_NAMES[state["blue_action"]],
        "red_action": red_action_of(state),
        "red_success": _SUCCESS[int(state["red_success"])],
        **{host.name: _host(state, number, host, decoys) for number, host in enumerate(hosts_of(quirks))},
    }


def red_action_of(state: Any) -> str:
    """What Red did, with its target, and how it broke in."""
    action, target = int(state["red_action"]), int(state["red_target"])
    if action == SLEEP or target == NOBODY:
        return RED_ACTIONS[SLEEP]
    name = Subnet(target).name.capitalize() if action == DISCOVER_SYSTEMS else HOSTS[target].name
    exploit = int(state["red_exploit"])
    return f"{RED_ACTIONS[action]} {name}" + (f" ({EXPLOITS[exploit].name})" if exploit != NOBODY else "")


def _host(state: Any, number: int, host: Host, decoys: list[Decoy]) -> dict[str, Any]:
    processes: list[dict[str, Any]] = [
        {"Connections": [{"local_port": service.port}], "Service": service.kind or None, "Username": service.user}
        for service in host.services
    ]
    processes += [
        {"Connections": [{"local_port": decoy.port}], "Service": decoy.kind, "Decoy": decoy.name}
        for decoy, is_up in zip(decoys, state["decoys"][number].tolist(), strict=True)
        if is_up
    ]
    if number == OP_SERVER0 and state["ot_service"]:
        processes.append({"Connections": [], "Service": "OTService", "Username": "root"})
    admin, seen, unseen = state["sessions"][number].tolist()
    administrator = "SYSTEM" if host.is_windows else "root"
    sessions = [{"Agent": "Red", "Username": administrator, "Privileged": True}] * admin
    # Who a user is has no effect in the game and is not remembered: these are the likely ones.
    through_service = next((one.user for one in host.services if one.kind == "web"), "NetworkService")
    by_guessing = "vagrant" if host.is_windows else "pi"
    sessions += [{"Agent": "Red", "Username": through_service, "Privileged": False, "Known to Blue": True}] * seen
    sessions += [{"Agent": "Red", "Username": by_guessing, "Privileged": False, "Known to Blue": False}] * unseen
    return {
        "System info": {"Hostname": host.name, "OSType": "WINDOWS" if host.is_windows else "LINUX"},
        "Interface": [{"Subnet": host.subnet.name.capitalize()}],
        "Processes": processes,
        "Sessions": [dict(session) for session in sessions],
        "Files": ["malware"] if state["files"][number] else [],
    }
