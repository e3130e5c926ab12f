"""What all text worlds have in common: they are seen as text, acted in by name or number, and begun by two seeds.

The *task seed* decides where an episode begins, so that members of a group who share it are given the same prompt. The *noise
seed* decides everything that chance does afterwards: slips, and rewards that are drawn.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
from gymnasium import spaces
from gymnasium.utils import seeding

from shoal.envs.texts.any_text import AnyText
from shoal.envs.texts.noise import Noise
from shoal.envs.texts.settings import config_of
from shoal.vector.errors import ConfigurationError, ResetNeeded

SEED_LIMIT = 2**31
LONGEST_NAME = 100
"""A text that is longer is the name of no action."""


class TextEnv(gymnasium.Env[str, Any]):
    """A world that is seen as text. A subclass says how an episode begins, what an action does, and what is seen.

    Args:
        config: an instance of the world's ``config_class``, or a mapping of its fields.
        render_mode: what :meth:`render` returns; by default what the config says, or text.
        settings: fields of the config, instead of a config or to change one.
    """

    config_class: ClassVar[type[Any]]
    action_lookup: Mapping[int, str] | None = None
    """The name of each action by its number; ``None`` where actions are texts."""
    metadata = {"render_modes": ["text"], "render_fps": 4}
    config: Any

    def __init__(self, config: Any = None, *, render_mode: str | None = None, **settings: Any) -> None:
        self.config = config_of(self.config_class, config, settings)
        render_mode = render_mode or getattr(self.config, "render_mode", "text")
        if render_mode not in self.metadata["render_modes"]:
            known = ", ".join(map(repr, self.metadata["render_modes"]))
            raise ConfigurationError(f"render_mode must be one of {known}, got {render_mode!r}")
        self.render_mode = render_mode
        self.observation_space = AnyText()
        self.action_space: spaces.Space[Any] = (
            AnyText()
            if self.action_lookup is None
            else spaces.Discrete(len(self.action_lookup), start=min(self.action_lookup))
        )
        self.noise = Noise(0)
        self._has_begun = False

    # -- what a world says -----------------------------------------------------------------------------------------------

    def begin(self, task_seed: int) -> None:
        """Begin the episode of this task."""
        raise NotImplementedError

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Do this (a number, or a text); returns the reward, whether the episode has ended, and whether anything changed."""
        raise NotImplementedError

    def text(self) -> str:
        """What is seen now."""
        raise NotImplementedError

    @property
    def success(self) -> bool:
        """Whether the task has been done."""
        raise NotImplementedError

    def solve(self) -> list[Any] | None:
        """Actions that do the task from here on, if chance lets them; ``None`` if it cannot be done any more."""
        raise NotImplementedError

    # -- what Gymnasium asks ---------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: both the task's seed and the noise's, unless ``options`` says otherwise.
            options: ``task_seed``, ``noise_seed``, and ``mirrored`` for the noise's counterpart (1 - u for every u).
        """
        super().reset(seed=seed)
        given = dict(options or {})
        drawn = int(self.np_random.integers(SEED_LIMIT)) if seed is None else seed
        task_seed = int(given.get("task_seed", drawn))
        self.noise = Noise(int(given.get("noise_seed", drawn)), mirrored=bool(given.get("mirrored", False)))
        self.begin(task_seed)
        self._has_begun = True
        return self.text(), {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Act. What is no action of this world, ``None`` above all, leaves everything as it is and is marked as invalid."""
        self._check_begun()
        known = self.action_of(action)
        if known is None:
            return self.text(), 0.0, False, False, self._info(is_valid=False, is_effective=False)
        reward, has_ended, is_effective = self.act(known)
        return self.text(), reward, has_ended, False, self._info(is_valid=True, is_effective=is_effective)

    def action_of(self, action: Any) -> Any:
        """The number (or text) that this number or name, in any case, means; ``None`` for what is no action."""
        if self.action_lookup is None:
            return action if isinstance(action, str) else None
        if isinstance(action, str):
            if len(action) > LONGEST_NAME:
                return None
            wanted = action.strip().lower()
            return next(
                (number for number, name in self.action_lookup.items() if wanted in (name.lower(), str(number))), None
            )
        try:
            return int(action) if action in self.action_lookup else None
        except TypeError:
            return None

    def render(self) -> Any:
        """What is seen, as text."""
        self._check_begun()
        return self.text()

    def _check_begun(self) -> None:
        if not self._has_begun:
            raise ResetNeeded(f"{type(self).__name__}: no episode has begun, call reset() first")

    def _info(self, *, is_valid: bool, is_effective: bool) -> dict[str, Any]:
        return {"action_is_valid": is_valid, "action_is_effective": is_effective, "success": self.success}

    # -- being branched and brought back ---------------------------------------------------------------------------------

    _MADE_WITH: ClassVar[frozenset[str]] = frozenset(
        {"config", "render_mode", "observation_space", "action_space", "_np_random", "_np_random_seed"}
    )
    """What stays as it was made, and the generator of seeds, which whoever saves a state saves by itself."""

    def get_state(self) -> dict[str, Any]:
        """Where the episode is, and its noise. It is a copy."""
        return copy.deepcopy({name: value for name, value in vars(self).items() if name not in self._MADE_WITH})

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        vars(self).update(copy.deepcopy(dict(state)))

    def seed_stream(self, seed: int) -> None:
        """Begin all chance anew: the noise, and the seeds of later episodes that are given none."""
        self.np_random, _ = seeding.np_random(seed)
        self.noise = Noise(seed)
