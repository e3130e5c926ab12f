"""What a config says about rollouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from shoal.llm.context import Window
from shoal.llm.es_settings import format_penalty_of
from shoal.llm.settings import Settings
from shoal.vector.arguments import check_choice, check_count, check_flag, check_seed, time_limit

MODES: Final = ("first_ready", "lockstep")
WINDOW_OF: Final = {
    "full": "full",
    "limited_multi_turn": "last",
    "last": "last",
    "single_turn": "single",
    "single": "single",
    "tokens": "tokens",
}
"""RAGEN's names of windows, and ours."""


@dataclass(frozen=True)
class RolloutSettings:
    """How trajectories are collected."""

    mode: str = "first_ready"
    """``"first_ready"``: a trajectory goes on when it can. ``"lockstep"``: all of them take each turn together."""
    window: Window = field(default_factory=Window)
    max_turns: int = 50
    max_actions_per_turn: int = 1
    action_sep: str = "||"
    """What stands between the actions of a turn."""
    max_prompt_length: int | None = None
    """In tokens. A conversation that is longer ends its trajectory, with the status ``context_overflow``."""
    max_response_length: int | None = None
    """In tokens."""
    max_actions: dict[str, int] = field(default_factory=dict)
    """By tag: how many actions a trajectory may have."""
    format_penalty: float = 0.1
    """What is subtracted from the reward of a turn in which not all that was said were actions."""
    turn_timeout: float | None = None
    """Seconds that a policy has for an answer."""
    on_failure: str = "mask"
    """``"mask"``: a trajectory that fails is left out. ``"replace"``: it is begun again, ``max_attempts`` times at most."""
    max_attempts: int = 3
    seed: int = 0
    """Of sampling."""
    filters_groups: bool = False
    """Whether groups whose members all had the same return are played again with another task."""
    max_num_gen_batches: int = 10
    """How often that is tried, the first time included."""

    @classmethod
    def of(cls, config: Any) -> RolloutSettings:
        """From a whole config, whose keys are those of the seed documents, or from what is one already."""
        if isinstance(config, RolloutSettings):
            return config
        settings = Settings.of(config)
        agent, data, own = (settings.optional(name) for name in ("agent_proxy", "data", "rollout"))
        filters = settings.optional("algorithm").optional("filter_groups")
        return cls(
            mode=_choice(own, "mode", MODES, "first_ready"),
            window=_window_of(agent, data),
            max_turns=_count(agent, "max_turn", _count(settings.optional("env"), "max_steps", 50)) or 50,
            max_actions_per_turn=_count(agent, "max_actions_per_turn", 1) or 1,
            action_sep=str(agent.get("action_sep", "||")).strip() or "||",
            max_prompt_length=_count(data, "max_prompt_length", None),
            max_response_length=_count(data, "max_response_length", None),
            max_actions=_max_actions_of(settings.optional("custom_envs")),
            format_penalty=format_penalty_of(settings.optional("es_manager")),
            turn_timeout=time_limit(own.full("turn_timeout"), own.get("turn_timeout")),
            on_failure=_choice(own, "on_failure", ("mask", "replace"), "mask"),
            max_attempts=_count(own, "max_attempts", 3) or 3,
            seed=_seed(own),
            filters_groups=_flag(filters, "enable"),
            max_num_gen_batches=_count(filters, "max_num_gen_batches", 10) or 10,
        )

    @property
    def separator(self) -> str | None:
        """What stands between actions, where there may be several."""
        return self.action_sep if self.max_actions_per_turn > 1 else None


def _window_of(agent: Settings, data: Settings) -> Window:
    kind = _choice(agent, "context_window_mode", tuple(WINDOW_OF), "single_turn")
    turns = agent.get("max_context_window", 5)
    turns = 5 if turns == -1 else turns  # RAGEN's word for no limit, which other windows are for
    check_count(agent.full("max_context_window"), turns)
    return Window(WINDOW_OF[kind], turns, _count(data, "max_prompt_length", 2048) or 2048, str(agent.get("system", "")))


def _choice(section: Settings, name: str, allowed: tuple[str, ...], default: str) -> str:
    value: str = section.get(name, default)
    check_choice(section.full(name), value, allowed)
    return value


def _count(section: Settings, name: str, default: int | None) -> int | None:
    value: int | None = section.get(name, default)
    if value is not None:
        check_count(section.full(name), value)
    return value


def _flag(section: Settings, name: str) -> bool:
    value: bool = section.get(name, False)
    check_flag(section.full(name), value)
    return value


def _seed(section: Settings) -> int:
    value: int = section.get("seed", 0)
    check_seed(section.full("seed"), value)
    return value


def _max_actions_of(worlds: Settings) -> dict[str, int]:
    limits = {}
    for name in worlds:
        limit = _count(worlds.section(name), "max_actions_per_traj", None)
        if limit is not None:
            limits[name] = limit
    return limits
