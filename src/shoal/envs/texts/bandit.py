"""A bandit with two arms, of which one pays little for sure, and the other more on average. ``shoal/Bandit-v0``.

The task's seed decides the names and their order, which are all that the prompt says. The noise's seed decides what the
uncertain arm pays. So members of a group can share their prompt and still be paid differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymnasium import spaces

from shoal.envs.texts.noise import task_generator
from shoal.envs.texts.settings import check_probability
from shoal.envs.texts.text_env import LONGEST_NAME, TextEnv
from shoal.vector.arguments import check_choice
from shoal.vector.errors import ConfigurationError

NAMES = {
    "train": (
        ("meadow", "volcano"), ("snail", "falcon"), ("candle", "lightning"), ("pond", "ocean"), ("kite", "rocket"),
        ("pebble", "meteor"), ("lullaby", "fanfare"), ("sparrow", "eagle"), ("breeze", "hurricane"), ("kitten", "tiger"),
        ("hill", "summit"), ("whisper", "thunder"),
    ),
    "test": (
        ("puddle", "waterfall"), ("donkey", "stallion"), ("ember", "wildfire"), ("raft", "galleon"), ("minnow", "shark"),
        ("lantern", "comet"), ("drizzle", "monsoon"), ("pawn", "queen"),
    ),
}  # fmt: skip
"""Pairs of names: the arm that pays little for sure, and the one that pays more on average."""


@dataclass(frozen=True)
class BanditConfig:
    """What the arms are called, and what they pay."""

    lo_arm_name: str = "phoenix"
    """The arm that pays the same every time."""
    hi_arm_name: str = "dragon"
    """The arm that pays one of two rewards."""
    action_space_start: int = 1
    """The number of the first arm."""
    lo_arm_score: float = 0.1
    """What the first of these pays."""
    hi_arm_loscore: float = 0.0
    """What the other pays mostly."""
    hi_arm_hiscore: float = 1.0
    """What the other pays sometimes."""
    hi_arm_hiscore_prob: float = 0.25
    """How likely it does."""
    split: str | None = None
    """``"train"`` or ``"test"``: names from a list of pairs, of which the task's seed chooses one; no pair is in both."""
    render_mode: str = "text"
    """What ``render()`` returns."""

    def __post_init__(self) -> None:
        if self.split is not None:
            check_choice("split", self.split, NAMES)
        check_probability("hi_arm_hiscore_prob", self.hi_arm_hiscore_prob)
        for name in (self.lo_arm_name, self.hi_arm_name):
            if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or name != name.strip():
                raise ConfigurationError(
                    f"the name of an arm must be a text of 1 to {LONGEST_NAME} characters, without spaces around it, "
                    f"got {name!r}"
                )
        if self.lo_arm_name.lower() == self.hi_arm_name.lower():
            raise ConfigurationError(f"the arms must have different names, both are called {self.lo_arm_name!r}")


class BanditEnv(TextEnv):
    """Pull one arm, once."""

    config_class = BanditConfig
    config: BanditConfig

    def __init__(self, config: Any = None, *, render_mode: str | None = None, **settings: Any) -> None:
        super().__init__(config, render_mode=render_mode, **settings)
        self._name_arms(self.config.lo_arm_name, self.config.hi_arm_name)
        self.action_space = spaces.Discrete(2, start=self.config.action_space_start)

    def _name_arms(self, first: str, second: str) -> None:
        self.action_lookup = {self.config.action_space_start: first, self.config.action_space_start + 1: second}

    def begin(self, task_seed: int) -> None:
        """Name the arms, in some order."""
        random, config = task_generator(task_seed), self.config
        is_swapped = bool(random.random() < 0.5)
        pair = config.lo_arm_name, config.hi_arm_name
        if config.split is not None:
            pairs = NAMES[config.split]
            pair = pairs[int(random.integers(len(pairs)))]
        self._name_arms(*(pair[::-1] if is_swapped else pair))
        self._hi_arm = config.action_space_start + (not is_swapped)
        self._pulled: int | None = None
        self._reward = 0.0

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Pull an arm."""
        if self._pulled is not None:
            return 0.0, True, False
        config = self.config
        is_lucky = self.noise.uniform() < config.hi_arm_hiscore_prob
        self._pulled = action
        self._reward = (
            config.lo_arm_score
            if action != self._hi_arm
            else config.hi_arm_hiscore
            if is_lucky
            else config.hi_arm_loscore
        )
        return self._reward, True, True

    def text(self) -> str:
        """The arms; afterwards, what was paid."""
        arms = self.action_lookup or {}
        if self._pulled is None:
            return "Arms:\n" + "\n".join(f"{number}: {name}" for number, name in arms.items())
        return f"{arms[self._pulled]}: {self._reward:g} points"

    @property
    def success(self) -> bool:
        """Whether the better arm was pulled."""
        return self._pulled == self._hi_arm

    def solve(self) -> list[Any] | None:
        """The better arm."""
        return [self._hi_arm] if self._pulled is None else [] if self.success else None
