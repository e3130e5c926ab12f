"""Which worlds a config asks for: tags, groups, and the members of each.

Members are numbered in the order of tags. Member i belongs to group ``i // group_size``, and all of a group have the same
config and begin with the same seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.envs.texts.settings import config_of
from shoal.llm.hosted import Begin
from shoal.llm.noise_sharing import SHARING, member_options
from shoal.llm.registry import REGISTERED_ENV_CONFIGS, REGISTERED_ENVS, UnknownEnvType
from shoal.llm.settings import Settings
from shoal.vector.arguments import check_choice, check_count
from shoal.vector.caller import warn_caller
from shoal.vector.errors import ConfigurationError

MAX_ACTIONS = {"bandit": 1, "countdown": 1, "metamathqa": 1, "webshop": 9}
"""How many actions a trajectory may have, where a config does not say ..."""
MAX_ACTIONS_OF_OTHERS = 10
"""... and in all other worlds."""


@dataclass(frozen=True)
class Maker:
    """Makes a world."""

    world: Any
    config: Any
    """What it is given; a dictionary is given as keywords."""
    name: str

    def __call__(self) -> Any:
        """Make one."""
        return self.world(**self.config) if isinstance(self.config, dict) else self.world(self.config)

    def __repr__(self) -> str:
        return f"a world of {self.name}"


@dataclass(frozen=True)
class Tag:
    """A kind of world, as a config describes it."""

    name: str
    env_type: str
    maker: Maker
    max_actions_per_traj: int = MAX_ACTIONS_OF_OTHERS
    instruction: str = ""
    """What the player is told first; empty for what the world's manager says."""

    @property
    def config(self) -> Any:
        """The world's config."""
        return self.maker.config


@dataclass(frozen=True)
class Crew:
    """All members, for training or for validation."""

    mode: str
    tags: tuple[Tag, ...]
    """Of each member."""
    num_groups: int
    group_size: int
    noise: str = "common"
    """What members share of chance."""

    def __len__(self) -> int:
        return len(self.tags)

    def seeds_from(self, seed: int) -> list[int]:
        """Every member's seed: group g has ``seed + g``."""
        return [seed + group for group in range(self.num_groups) for _ in range(self.group_size)]

    def beginnings(self, seeds: Sequence[int]) -> dict[int, Begin]:
        """With what each member begins, if these are their seeds."""
        return {row: Begin(seed, self.mode, self.options_of(row, seed)) for row, seed in enumerate(seeds)}

    def options_of(self, row: int, seed: int) -> dict[str, Any] | None:
        """With what options a member begins the task of this seed."""
        if self.noise == "common":
            return None
        return member_options(seed, self.group_size, self.noise)[row % self.group_size]


def crew_of(config: Settings, mode: str) -> Crew:
    """The members that ``es_manager.<mode>`` asks for."""
    section = config.section("es_manager").section(mode)
    num_groups, group_size = section.need("env_groups"), section.need("group_size")
    check_count(section.full("env_groups"), num_groups)
    check_count(section.full("group_size"), group_size)
    noise = section.get("noise", "common")
    check_choice(section.full("noise"), noise, SHARING)
    names, counts = _groups_of_tags(section.section("env_configs"), num_groups)
    worlds = config.section("custom_envs")
    known = {name: tag_of(name, worlds.section(name)) for name in names}
    tags = [known[name] for name, count in zip(names, counts, strict=True) for _ in range(count * group_size)]
    return Crew(mode, tuple(tags), num_groups, group_size, noise)


def _groups_of_tags(section: Settings, num_groups: int) -> tuple[list[str], list[int]]:
    names = section.need("tags")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(f"{section.full('tags')} must be a list of names of custom_envs, got {names!r}")
    key = section.full("n_groups")
    counts = section.get("n_groups", [num_groups] if len(names) == 1 else None)
    if not isinstance(counts, list) or len(counts) != len(names):
        raise ConfigurationError(f"{key} must have the number of groups of each of {', '.join(names)}, got {counts!r}")
    for count in counts:
        check_count(key, count)
    if sum(counts) == num_groups:
        return names, counts
    if len(names) > 1:
        raise ConfigurationError(
            f"{key} is {counts}, which are {sum(counts)} groups, but env_groups is {num_groups}: they must be as many"
        )
    warn_caller(f"{key} is {counts}, but env_groups is {num_groups}: all {num_groups} groups are of {names[0]}")
    return names, [num_groups]


def tag_of(name: str, section: Settings) -> Tag:
    """A kind of world, checked."""
    env_type = section.need("env_type")
    limit = section.get("max_actions_per_traj", MAX_ACTIONS.get(env_type, MAX_ACTIONS_OF_OTHERS))
    check_count(section.full("max_actions_per_traj"), limit)
    maker = maker_of(env_type, section.get("env_config", {}), section.full("env_config"))
    return Tag(name, env_type, maker, limit, str(section.get("env_instruction", "")))


def maker_of(env_type: str, env_config: Any, key: str) -> Maker:
    """What makes a world of this type with these settings, which stand in the config under this key."""
    try:
        world = REGISTERED_ENVS[env_type]
    except UnknownEnvType as error:
        raise ConfigurationError(f"{key.rpartition('.')[0] or 'env_type'}: {error}") from error
    if not isinstance(env_config, Mapping):
        raise ConfigurationError(f"{key} must be a section with fields of the world's config, got {env_config!r}")
    try:
        config_class = REGISTERED_ENV_CONFIGS[env_type]
    except UnknownEnvType:
        return Maker(world, dict(env_config), env_type)
    try:
        is_ours = dataclasses.is_dataclass(config_class)
        config = config_of(config_class, env_config, {}) if is_ours else config_class(**env_config)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{key}: {error}") from error
    return Maker(world, config, env_type)
