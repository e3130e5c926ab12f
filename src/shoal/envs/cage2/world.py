"""CAGE 2 as a world. ``shoal/Cage2-v0``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from shoal.envs.cage2.actions import OFFICIAL_ACTIONS, REDUCED_ACTIONS, decoy_order, names_of
from shoal.envs.cage2.attackers import B_LINE, MEANDER, SLEEPING
from shoal.envs.cage2.blue import NUM_ACTIONS
from shoal.envs.cage2.network import network_of
from shoal.envs.cage2.pictures import as_picture, as_text
from shoal.envs.cage2.quirks import Quirks, quirks_of
from shoal.envs.cage2.rules import GREEN_SCANS, GREEN_SLEEPS, begin_row, observe_row, step_row
from shoal.envs.cage2.sight import CARDIFF, DEBUGGED, NUM_BITS, OFFICIAL, REMEMBERED
from shoal.envs.cage2.state import FIELDS, Settings, game_of
from shoal.envs.world import Rows, World
from shoal.envs.world_env import WorldEnv
from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean

RED = {"B_line": B_LINE, "Meander": MEANDER, "Sleep": SLEEPING}
GREEN = {"Sleep": GREEN_SLEEPS, "Scan": GREEN_SCANS}
OBSERVATIONS = {"official": OFFICIAL, "cardiff": CARDIFF, "debugged": DEBUGGED}
ACTIONS = {"official": OFFICIAL_ACTIONS, "reduced": REDUCED_ACTIONS}
# As CybORG calls its agents.
_OTHER_NAMES = {
    "red": {"B_lineAgent": "B_line", "RedMeanderAgent": "Meander", "SleepAgent": "Sleep"},
    "green": {"SleepAgent": "Sleep", "GreenAgent": "Scan"},
}


class Cage2(World):
    """The world.

    Args:
        red: who attacks: ``"B_line"``, ``"Meander"`` or ``"Sleep"``. CybORG's classes, and their names, mean the same.
        green: ``"Sleep"``, or ``"Scan"``: users who scan hosts at random.
        actions: ``"official"`` (145) or ``"reduced"`` (the 36 of the challenge's winner).
        observation: ``"official"``, or how other versions of the wrapper draw conclusions: ``"cardiff"``, ``"debugged"``.
        scan_memory: add the winner's memory of scans to the observation, 10 numbers.
        quirks: which peculiarities of the official simulator to switch off (or on), by name; see :class:`Quirks`.
        render_mode: ``"ansi"`` or ``"rgb_array"``.
    """

    fields = FIELDS
    begin_row, step_row, observe_row = staticmethod(begin_row), staticmethod(step_row), staticmethod(observe_row)
    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 2}

    def __init__(
        self,
        render_mode: str | None = None,
        red: Any = "B_line",
        green: Any = "Sleep",
        actions: str = "official",
        observation: str = "official",
        scan_memory: bool = False,
        quirks: Quirks | Mapping[str, bool] | None = None,
    ) -> None:
        self.render_mode = render_mode
        if not isinstance(scan_memory, bool | np.bool_):
            raise ConfigurationError(f"scan_memory must be True or False, got {scan_memory!r}")
        self.quirks = quirks_of(quirks)
        numbers = ACTIONS[_chosen("actions", actions, ACTIONS)]
        self.action_names = names_of(numbers)
        self.tables = game_of(
            network_of(self.quirks),
            self.quirks,
            Settings(
                red=RED[_chosen("red", red, RED)],
                green=GREEN[_chosen("green", green, GREEN)],
                sight=OBSERVATIONS[_chosen("observation", observation, OBSERVATIONS)],
                has_scan_memory=bool(scan_memory),
                actions=np.resize(numbers, NUM_ACTIONS),  # of one length, so that rules are compiled once
                decoy_order=decoy_order(),
            ),
        )
        high = np.ones(NUM_BITS + len(REMEMBERED) * bool(scan_memory), np.float32)
        high[NUM_BITS:] = 2
        self.observation_space = spaces.Box(np.zeros_like(high), high, dtype=np.float32)
        self.action_space = spaces.Discrete(len(numbers))

    def render(self, row: Any) -> Any:
        """The network, with what Red has and what Blue believes: a table, or a picture."""
        return as_text(row) if self.render_mode == "ansi" else as_picture(row)


class Cage2Env(WorldEnv):
    """One game, as an ordinary environment. It ends after ``max_steps``, or never with ``None``."""

    world_class = Cage2

    @classmethod
    def _make_rows(
        cls, num_rows: int, max_episode_steps: int | None = None, max_steps: int | None = 100, **keywords: Any
    ) -> Rows:
        if max_steps is not None and (
            isinstance(max_steps, bool) or not isinstance(max_steps, int | np.integer) or max_steps < 1
        ):
            raise ConfigurationError(f"max_steps must be a whole number of at least 1, or None, got {max_steps!r}")
        # Both hold, as for a single one that Gymnasium wraps.
        limits = [limit for limit in (max_steps, max_episode_steps) if limit is not None]
        return super()._make_rows(num_rows, min(limits, default=None), **keywords)


def _chosen(option: str, value: Any, known: Mapping[str, Any]) -> str:
    name = value if isinstance(value, str) else getattr(value, "__name__", repr(value))
    others = _OTHER_NAMES.get(option, {})
    name = others.get(name, name)
    if name in known:
        return name
    hint = did_you_mean(name, [*known, *others])
    raise ConfigurationError(f"{option} must be one of {', '.join(map(repr, known))}, got {value!r}.{hint}")
