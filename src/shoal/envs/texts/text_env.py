"""What all text worlds have in common: they are seen as text, acted in by name or number, and begun by two seeds.

The *task seed* decides where an episode begins, so that members of a group who share it are given the same prompt. The *noise
seed* decides everything that chance does afterwards: slips, and rewards that are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
from gymnasium import spaces

from shoal.envs.texts.noise import Noise
from shoal.envs.texts.settings import config_of
from shoal.vector.errors import ConfigurationError

LONGEST_TEXT = 2**20
SEED_LIMIT = 2**31


class TextEnv(gymnasium.Env[str, Any]):
    """A world that is seen as text. A subclass says how an episode begins, what an action does, and what is seen.

    Args:
        config: an instance of the world's ``config_class``, or a mapping of its fields.
        render_mode: what :meth:`render` returns.
        settings: fields of the config, instead of a config or to change one.
    """

    config_class: ClassVar[type[Any]]
    action_lookup: Mapping[int, str] | None = None
    """The name of each action by its number; ``None`` where actions are texts."""
    metadata = {"render_modes": ["text"]}
    config: Any

    def __init__(self, config: Any = None, *, render_mode: str | None = "text", **settings: Any) -> None:
        self.config = config_of(self.config_class, config, settings)
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            known = ", ".join(map(repr, self.metadata["render_modes"]))
            raise ConfigurationError(f"render_mode must be one of {known}, got {render_mode!r}")
        self.render_mode = render_mode
        self.observation_space = spaces.Text(LONGEST_TEXT, min_length=0)
        self.action_space: spaces.Space[Any] = (
            spaces.Text(LONGEST_TEXT, min_length=0)
            if self.action_lookup is None
            else spaces.Discrete(len(self.action_lookup), start=min(self.action_lookup))
        )
        self.noise = Noise(0)

    # -- what a world says -----------------------------------------------------------------------------------------------

    def begin(self, task_seed: int) -> None:
        """Begin the episode of this task."""
        raise NotImplementedError

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Do this (a number of ``action_lookup``, or a text); returns the reward, whether the episode has ended, and
        whether the action changed anything.
        """
        raise NotImplementedError

    def text(self) -> str:
        """What is seen now."""
        raise NotImplementedError

    @property
    def success(self) -> bool:
        """Whether the task has been done."""
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
        return self.text(), {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Act. What is no action of this world, ``None`` above all, leaves everything as it is and is marked as invalid."""
        known = self.action_of(action)
        if known is None:
            return self.text(), 0.0, False, False, self._info(is_valid=False, is_effective=False)
        reward, has_ended, is_effective = self.act(known)
        return self.text(), reward, has_ended, False, self._info(is_valid=True, is_effective=is_effective)

    def action_of(self, action: Any) -> Any:
        """The number (or text) that this means: a number, or a name in any case; ``None`` for what is no action."""
        if self.action_lookup is None:
            return action if isinstance(action, str) else None
        if isinstance(action, str):
            wanted = action.strip().lower()
            return next((number for number, name in self.action_lookup.items() if name.lower() == wanted), None)
        try:
            return int(action) if action in self.action_lookup else None
        except TypeError:
            return None

    def render(self) -> Any:
        """What is seen, as text."""
        return self.text()

    def _info(self, *, is_valid: bool, is_effective: bool) -> dict[str, Any]:
        return {"action_is_valid": is_valid, "action_is_effective": is_effective, "success": self.success}

    # -- being branched and brought back ---------------------------------------------------------------------------------

    def seed_stream(self, seed: int) -> None:
        """Begin the noise anew."""
        self.noise = Noise(seed)
