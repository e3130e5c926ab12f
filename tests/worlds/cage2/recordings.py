"""Recordings of the real simulator, and what our rules make of the same random outcomes.

``cage2_*.npz`` hold episodes of CybORG (CAGE Challenge 2, Scenario2) with the official wrapper. Keys are
``<red>_<policy>_<length>/<array>``, with ``_green`` at the end where GreenAgent was on. Arrays are of E episodes of T steps:

    act (E, T), obs (E, T + 1, 52) with the first observation at 0, rew (E, T), seed (E)
    red_type       0 Sleep, 1 DiscoverRemoteSystems, 2 DiscoverNetworkServices, 3 Exploit, 4 PrivilegeEscalate, 5 Impact
    red_target     a host, or for type 1 a subnet (0 Enterprise, 1 Operational, 2 User)
    red_exploit    -1, or FTP, Haraka, SQLi, HTTPS, HTTP, EternalBlue, BlueKeep, SSH
    detected       whether the exploit was seen to call home
    red_success, blue_success    1, 0, or -1 (unknown)
    green_target   the host that Green scanned, or -1
    sessions (E, T, 13, 3)       Red's after the step: privileged, user with known pid, user without
    access (E, T, 13)            0 none, 1 user, 2 privileged
    ot_up          whether OTService runs
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.envs.cage2 import Cage2
from shoal.envs.cage2.rules import play
from shoal.envs.cage2.sight import write_down
from shoal.envs.cage2.state import NO_SCAN, Picks, begin
from shoal.envs.compiling import is_compiling
from shoal.envs.world import Rows

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("cage2_*.npz"))
RED_OF = {"bline": "B_line", "meander": "Meander", "sleepred": "Sleep"}

Array = NDArray[Any]


class Recording(NamedTuple):
    """Some episodes."""

    name: str
    arrays: dict[str, Array]

    @property
    def red(self) -> str:
        """Who attacked."""
        return RED_OF[self.name.split("_")[0]]

    @property
    def green(self) -> str:
        """Whether users scanned."""
        return "Scan" if self.name.endswith("_green") else "Sleep"

    def picks(self) -> Array:
        """What chance decided, one line for each step, as :class:`Picks` wants it."""
        its = self.arrays
        before = np.zeros_like(its["sessions"])
        before[:, 1:] = its["sessions"][:, :-1]
        # An escalation takes one session away from those without privileges: which, is seen from what is left.
        seen = its["sessions"][..., 1] < before[..., 1]
        target = its["red_target"].astype(np.int64)
        escalated_seen = np.take_along_axis(seen, np.maximum(target, 0)[..., None], axis=2)[..., 0]
        green = np.where(its["green_target"] < 0, NO_SCAN, its["green_target"])
        columns = (green, target, its["red_exploit"], its["detected"], escalated_seen)
        return np.stack([np.asarray(column, np.int64) for column in columns], axis=-1)


@functools.cache
def recordings() -> dict[str, Recording]:
    """All of them, by name."""
    found: dict[str, dict[str, Array]] = {}
    for file in FILES:
        with np.load(file) as arrays:
            for key in arrays.files:
                name, array = key.split("/")
                found.setdefault(name, {})[array] = arrays[key]
    return {name: Recording(name, arrays) for name, arrays in found.items()}


def replayed(recording: Recording, **keywords: Any) -> dict[str, Array]:
    """What our rules say to the same actions and the same chances, as arrays like the recorded ones."""
    world = Cage2(red=recording.red, green=recording.green, **keywords)
    actions = recording.arrays["act"].astype(np.int64)
    episodes, steps = actions.shape
    shapes = {
        "obs": (episodes, steps + 1, 52),
        "rew": (episodes, steps),
        "sessions": (episodes, steps, 13, 3),
        **dict.fromkeys(DONE, (episodes, steps)),
    }
    results = {name: np.zeros(shape, np.float64 if name == "rew" else np.int64) for name, shape in shapes.items()}
    _loop()(
        world.tables, Rows(world, 1).state, actions, recording.picks(),
        results["obs"], results["rew"], results["sessions"], tuple(results[name] for name in DONE),
    )  # fmt: skip
    return results


DONE = ("red_type", "red_target", "red_exploit", "red_success", "blue_success", "green_target", "detected", "ot_up")


@functools.cache
def _loop() -> Callable[..., None]:
    if not is_compiling():
        return _replay
    import numba

    compiled: Callable[..., None] = numba.njit(_replay)
    return compiled


def _replay(
    game: Any, rows: Any, actions: Any, picks: Any, observations: Any, rewards: Any, sessions: Any, done: Any
) -> None:
    row = rows[0]
    for episode in range(actions.shape[0]):
        begin(game, row)
        write_down(game, row, observations[episode, 0])
        for step in range(actions.shape[1]):
            given = picks[episode, step]
            rewards[episode, step] = play(
                game, row, actions[episode, step], Picks(given[0], given[1], given[2], given[3], given[4])
            )
            write_down(game, row, observations[episode, step + 1])
            for host in range(13):
                sessions[episode, step, host, 0] = row.admin_sessions[host]
                sessions[episode, step, host, 1] = row.seen_sessions[host]
                sessions[episode, step, host, 2] = row.unseen_sessions[host]
            done[0][episode, step], done[1][episode, step] = row.red_action, row.red_target
            done[2][episode, step], done[3][episode, step] = row.red_exploit, row.red_success
            done[4][episode, step], done[5][episode, step] = row.blue_success, row.green_target
            done[6][episode, step], done[7][episode, step] = row.was_detected, row.service_runs


def differences(recording: Recording, **keywords: Any) -> list[str]:
    """Where our rules say something else, in words."""
    found = []
    for name, ours in replayed(recording, **keywords).items():
        theirs = recording.arrays[name]
        wrong = ~np.isclose(ours, theirs, rtol=0, atol=1e-6)
        if wrong.any():
            place = tuple(int(index[0]) for index in np.nonzero(wrong))
            what = f"{int(wrong.sum())} differences, first at {place}: {ours[place]} instead of {theirs[place]}"
            found.append(f"{recording.name}/{name}: {what}")
    return found
