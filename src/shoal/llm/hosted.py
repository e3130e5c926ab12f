"""A world where it lives, in a worker or here: takes orders, and never raises.

An order is to begin an episode, or a turn: a list of actions, which are carried out one after the other. The caller has the
results in the shape of a step: what is seen, the reward, the two flags, and an info, in which there is also :data:`EXECUTED`,
and, where there is something to say, :data:`LOOKUP` and :data:`ERROR`.

Both kinds of worlds are understood: Gymnasium's (``reset(seed=, options=)``, five values of a step), and RAGEN's
(``reset(seed=, mode=)``, four values of a step).
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shoal.envs.texts.any_text import AnyText
from shoal.envs.texts.text_env import TextEnv
from shoal.vector.captures import state_of, with_state
from shoal.vector.observations import shortened

EXECUTED, LOOKUP, ERROR = "shoal.executed", "shoal.lookup", "shoal.error"
"""In an info: how many actions were carried out; what actions are called, at the beginning of an episode and when that has
changed; and the traceback of what was raised."""

Stepped = tuple[Any, float, bool, bool, dict[str, Any]]
Make = Callable[[], Any]


class Begin(NamedTuple):
    """The order to begin an episode."""

    seed: int | None
    mode: str = "train"
    options: dict[str, Any] | None = None


@dataclass(frozen=True)
class Hosting:
    """A factory of hosted worlds."""

    make: Make

    def __call__(self) -> HostedWorld:
        """The world itself is made when its first episode begins."""
        return HostedWorld(self.make)

    @property
    def preload(self) -> tuple[str, ...]:
        """What whoever starts workers may import, so that they share it: modules of our own, which start no threads."""
        return (_module_of(self.make),) if is_ours(self.make) else ()

    def __repr__(self) -> str:
        return repr(self.make)


class HostedWorld:
    """An environment whose steps are orders.

    To make a world and to begin an episode are steps, too. So all that a world does has the same deadline, and what kills its
    process is found out and given up alone, whenever it does so.
    """

    observation_space = action_space = AnyText()
    metadata: Mapping[str, Any] = {}

    def __init__(self, make: Make) -> None:
        self._make = make
        self._world: Any = None
        self._asks: frozenset[str] = frozenset()
        """What the world's ``reset`` can be told."""
        self._lookup: Mapping[Any, str] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Nothing yet: the next step begins the episode."""
        return "", {}

    def step(self, order: Any) -> Stepped:
        """Carry out an order."""
        return self._begin(order) if type(order) is Begin else self._act(order)

    def _begin(self, order: Begin) -> Stepped:
        try:
            if self._world is None:
                self._world = self._make()
                self._asks = _parameters(self._world.reset)
            told = {name: value for name, value in order._asdict().items() if name in self._asks}
            if told.get("options", self) is None:
                del told["options"]
            observation, info = _beginning(self._world.reset(**told))
            self._lookup = _lookup_of(self._world)
            more = {**_plain(info), EXECUTED: 0, LOOKUP: None if self._lookup is None else dict(self._lookup)}
            return self._shown(observation), 0.0, False, False, more
        except (Exception, SystemExit):
            return self._failed(0.0, {EXECUTED: 0})

    def _act(self, actions: Sequence[Any]) -> Stepped:
        world, total, executed = self._world, 0.0, 0
        merged: dict[str, Any] = {}
        terminated = truncated = False
        try:
            for action in actions:
                observation, reward, terminated, truncated, info = _step(world, action)
                total += float(reward)
                executed += 1
                merged.update(info)
                if terminated or truncated:
                    break
            shown, lookup = self._shown(observation), _lookup_of(world)
            merged = _plain(merged)
            if lookup != self._lookup:
                self._lookup = None if lookup is None else dict(lookup)
                merged[LOOKUP] = self._lookup
        except (Exception, SystemExit):
            return self._failed(total, {EXECUTED: executed})
        merged[EXECUTED] = executed
        return shown, total, bool(terminated), bool(truncated), merged

    def _failed(self, reward: float, info: dict[str, Any]) -> Stepped:
        """The world has raised. Whatever it has become, the next episode has a new one."""
        error = traceback.format_exc()
        self.close()
        return "", reward, False, True, {**info, ERROR: error}

    def _shown(self, observation: Any) -> Any:
        """What is to be seen: what the world renders, or its observation if it renders nothing."""
        world = self._world
        if isinstance(world, TextEnv) and world.render_mode == "text":
            return observation  # the same text
        if hasattr(world, "render") and getattr(world, "render_mode", "") is not None:
            rendered = world.render()
            observation = observation if rendered is None else rendered
        is_known = isinstance(observation, str | np.ndarray | list | tuple) or hasattr(observation, "convert")
        return observation if is_known else str(observation)

    def render(self, mode: str | None = None) -> Any:
        """What the world renders; in this mode, if it can."""
        if self._world is None:
            return None
        if mode is not None and "mode" in _parameters(self._world.render):
            return self._world.render(mode=mode)
        return self._world.render()

    def warm_up(self) -> None:
        """Load, or compile, what the first steps of such a world need, if it is one of ours."""
        if is_ours(self._make):
            with suppress(Exception):  # the first episode will say what is wrong
                world = self._make()
                world.reset(seed=0)
                world.step(next(iter(_lookup_of(world) or ["1"])))
                world.close()

    def ask(self, function: Callable[[Any], Any]) -> Any:
        """What a function makes of the world; ``None`` as long as there is none."""
        return None if self._world is None else function(self._world)

    def close(self) -> None:
        """Close the world, if there is one."""
        world, self._world = self._world, None
        if hasattr(world, "close"):
            with suppress(Exception):
                world.close()

    # -- being moved and brought back ------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Where the world is, to be pickled."""
        return {"lookup": self._lookup, "world": None if self._world is None else state_of(self._world)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.close()
        self._lookup = state["lookup"]
        if state["world"] is not None:
            self._world = with_state(self._make(), state["world"])
            self._asks = _parameters(self._world.reset)


def is_ours(make: Make) -> bool:
    """Whether it makes worlds that come with Shoal."""
    return _module_of(make).startswith("shoal.")


def _module_of(make: Make) -> str:
    return str(getattr(getattr(make, "world", make), "__module__", ""))


def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    """By which names this can be given something. What takes any name knows those of Gymnasium."""
    parameters = inspect.signature(function).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return frozenset((*parameters, *(("seed", "options") if takes_any else ())))


def _beginning(result: Any) -> tuple[Any, Mapping[str, Any]]:
    """What ``reset`` returned, with an info or without."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping):
        return result
    return result, {}


def _step(world: Any, action: Any) -> tuple[Any, Any, Any, Any, Mapping[str, Any]]:
    result = world.step(action)
    if len(result) == 5:
        return result  # type: ignore[no-any-return]
    if len(result) == 4:
        observation, reward, done, info = result
        return observation, reward, done, False, info
    raise ValueError(f"step() must return five values, as in Gymnasium, or four, as in RAGEN, got {shortened(result)}")


def _lookup_of(world: Any) -> Mapping[Any, str] | None:
    """What the world's actions are called now, by what they are."""
    core = getattr(world, "unwrapped", world)
    for one in (world, core, getattr(core, "config", None)):
        found = getattr(one, "action_lookup", None)
        if isinstance(found, Mapping) and found:
            return found
    return None


def _plain(info: Mapping[str, Any]) -> dict[str, Any]:
    """An info with Python's numbers instead of NumPy's, so that it is the same however it travelled."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in info.items()}
