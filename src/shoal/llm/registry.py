"""Which text worlds there are, by the names that configs call them.

Both mappings are live: what is assigned to them is known from then on, and so is what an installed package names as an entry
point of the group ``shoal.envs``::

    REGISTERED_ENVS["mine"] = MyEnv

    [project.entry-points."shoal.envs"]
    mine = "my_package.worlds:MyEnv"

A world is imported when it is asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, MutableMapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean

ENTRY_POINT_GROUP = "shoal.envs"

BUILT_IN = {
    "sokoban": "shoal.envs.sokoban:SokobanEnv",
    "frozen_lake": "shoal.envs.texts.frozen_lake:FrozenLakeTextEnv",
    "bandit": "shoal.envs.texts.bandit:BanditEnv",
    "countdown": "shoal.envs.texts.countdown:CountdownEnv",
    "webshop": "shoal.envs.webshop:WebShopEnv",
    "metamathqa": "shoal.envs.texts.metamathqa:MetaMathQAEnv",
}


class UnknownEnvType(ConfigurationError, KeyError):
    """No world has this name."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class Registry(MutableMapping[str, Any]):
    """Worlds by name: classes, or anything else that makes an environment."""

    def __init__(self) -> None:
        self._assigned: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self._assigned:
            return self._assigned[name]
        if name in (points := _points()):
            return _loaded(points[name])
        known = list(self)
        hint = did_you_mean(str(name), known) or f" There are {', '.join(known)}."
        raise UnknownEnvType(f"no world is registered as {name!r}.{hint}")

    def __setitem__(self, name: str, world: Any) -> None:
        _check_name(name)
        if not callable(world):
            raise ConfigurationError(
                f"REGISTERED_ENVS[{name!r}] must be a class of environments, or another callable that makes one, got {world!r}"
            )
        self._assigned[name] = world

    def __delitem__(self, name: str) -> None:
        """Take back what was assigned."""
        if name not in self._assigned:
            raise UnknownEnvType(f"nothing was assigned to {name!r}")
        del self._assigned[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*_points(), *self._assigned]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        """Whether there is one. Nothing is imported."""
        return name in list(self)


class Configs(MutableMapping[str, Any]):
    """The class of each world's config: its ``config_class``, or what was assigned."""

    def __init__(self, worlds: Registry) -> None:
        self._worlds = worlds
        self._assigned: dict[str, Callable[..., Any]] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self._assigned:
            return self._assigned[name]
        world = self._worlds[name]
        config_class = getattr(world, "config_class", None)
        if config_class is None:
            raise UnknownEnvType(
                f"{getattr(world, '__name__', world)!s}, registered as {name!r}, has no config_class: give it one, or "
                f"assign one to REGISTERED_ENV_CONFIGS[{name!r}]"
            )
        return config_class

    def __setitem__(self, name: str, config_class: Any) -> None:
        _check_name(name)
        if not callable(config_class):
            raise ConfigurationError(
                f"REGISTERED_ENV_CONFIGS[{name!r}] must be a class of configs, such as a dataclass, got {config_class!r}"
            )
        self._assigned[name] = config_class

    def __delitem__(self, name: str) -> None:
        """Take back what was assigned."""
        if name not in self._assigned:
            raise UnknownEnvType(f"no config was assigned to {name!r}")
        del self._assigned[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._worlds, *self._assigned]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        """Whether there is a world or a config of that name. Nothing is imported."""
        return name in list(self)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"a world is registered under a name, got {name!r}")


@functools.cache
def _points() -> dict[str, EntryPoint]:
    """Our own worlds, and those that installed packages bring under other names."""
    own = {name: EntryPoint(name, place, ENTRY_POINT_GROUP) for name, place in BUILT_IN.items()}
    installed = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    return own | {name: point for name, point in installed.items() if name not in own}


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"the world {point.name!r} cannot be imported from {point.value}: {error}") from error


REGISTERED_ENVS = Registry()
REGISTERED_ENV_CONFIGS = Configs(REGISTERED_ENVS)
