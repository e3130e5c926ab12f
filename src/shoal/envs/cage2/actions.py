"""Sets of actions for Blue: the official one, and the smaller one of the challenge's winner.

The winner chooses among 36: to analyse, remove and restore the hosts that matter, and "a decoy on this host", which puts up the
first one of a list that is not up there.
"""

from __future__ import annotations

import numpy as np

from shoal.envs.cage2.blue import ACTION_NAMES, NUM_ACTIONS
from shoal.envs.cage2.network import DECOYS, NAMES, NUM_DECOYS, NUM_HOSTS
from shoal.envs.cage2.state import NOBODY
from shoal.vector.layout import Array

_SERVERS = ("Enterprise0", "Enterprise1", "Enterprise2", "Op_Server0")
_USERS = ("User1", "User2", "User3", "User4")
_SINGLE = (
    *(f"Restore {host}" for host in _SERVERS),
    *(f"Analyse {host}" for host in _SERVERS),
    *(f"Remove {host}" for host in _SERVERS),
    *(f"Analyse {host}" for host in _USERS),
    *(f"Restore {host}" for host in _USERS),
    "Restore Defender",
    "Analyse Defender",
    "Remove Defender",
    *(f"Remove {host}" for host in _USERS),
)
DECOY_ORDER = {
    "Enterprise0": ("HarakaSMPT", "Tomcat", "Vsftpd", "Apache"),
    "Enterprise1": ("Femitter",),
    "Enterprise2": ("Femitter",),
    "User1": ("Apache", "Tomcat", "Smss", "Svchost"),
    "User2": ("Femitter", "Tomcat", "Apache", "SSHD"),
    "User3": ("Vsftpd", "SSHD"),
    "User4": ("Vsftpd",),
    "Defender": ("HarakaSMPT", "Tomcat", "Apache", "Vsftpd"),
    "Op_Server0": ("HarakaSMPT", "Apache", "Tomcat", "Vsftpd"),
}
"""Of every host for which the winner has such an action: its decoys, in the order in which they are put up."""

OFFICIAL_ACTIONS = np.arange(NUM_ACTIONS)
REDUCED_ACTIONS = np.array(
    [*(ACTION_NAMES.index(name) for name in _SINGLE), *(-1 - NAMES.index(host) for host in DECOY_ORDER)]
)


def names_of(actions: Array) -> tuple[str, ...]:
    """What every action of a set is called."""
    return tuple(ACTION_NAMES[action] if action >= 0 else f"Decoy {NAMES[-1 - action]}" for action in actions.tolist())


def decoy_order() -> Array:
    """The kinds of decoy for every host, filled up with ``NOBODY``."""
    kinds = [decoy.name for decoy in DECOYS]
    order = np.full((NUM_HOSTS, NUM_DECOYS), NOBODY)
    for host, decoys in DECOY_ORDER.items():
        order[NAMES.index(host), : len(decoys)] = [kinds.index(decoy) for decoy in decoys]
    return order


def index_of(verb: str, host: str) -> int:
    """The official number of an action, such as ``index_of("Restore", "User1")``."""
    return ACTION_NAMES.index(f"{verb} {host}")
