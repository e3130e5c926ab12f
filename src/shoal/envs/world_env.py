"""Rows of a world as ordinary environments: one that lives alone, and those of a batch, which are looked at one by one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding

from shoal.envs.world import Rows, World
from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean


class RowEnv(gymnasium.Env[Any, Any]):
    """One row of a batch. It can be stepped alone; together with the others is quicker."""

    def __init__(self, rows: Rows, place: int) -> None:
        self._rows, self._place, self._index = rows, place, np.array([place])
        world = rows.world
        self.observation_space, self.action_space = world.observation_space, world.action_space
        self.metadata, self.render_mode = world.metadata, world.render_mode

    @property
    def world(self) -> World:
        """The rules, and what all rows share."""
        return self._rows.world

    @property
    def row(self) -> Any:
        """What this row remembers."""
        return self._rows.state[self._place]

    @property
    def own_row(self) -> Any:
        """A copy of what this row remembers, as an array of one."""
        return self._rows.state[self._place : self._place + 1].copy()

    @property
    def all_rows(self) -> Any:
        """A copy of what every row of the batch remembers."""
        return self._rows.state.copy()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        if seed is not None:
            self._rows.seed(self._place, seed)
        if options:
            self.world.take_options(self.row, options)
        self._rows.begin(self._index)
        return self._rows.observation_of(self._place), self._rows.info_of(self._place)

    def reseed(self, seed: int) -> None:
        """Begin the row's random numbers anew, and those of Gymnasium's generator, which no rule uses."""
        self._rows.seed(self._place, seed)
        self._np_random, self._np_random_seed = None, seed

    @property
    def np_random(self) -> np.random.Generator:
        """Gymnasium's generator. One that was reseeded together with many others is made when it is asked for."""
        if self._np_random is None:
            self._np_random, self._np_random_seed = seeding.np_random(self._np_random_seed)
        return self._np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._np_random, self._np_random_seed = value, -1

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        # Compiled rules would not notice. Bounds of a Box are nobody's business, here as on every backend.
        if not isinstance(self.action_space, spaces.Box) and not self.action_space.contains(action):
            raise ValueError(f"the action {action!r} is not in {self.action_space}")
        reward, terminated, truncated = self._rows.step_one(self._place, self._index, action)
        return self._rows.observation_of(self._place), reward, terminated, truncated, self._rows.info_of(self._place)

    def render(self) -> Any:
        """A picture or a text, as ``render_mode`` says."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() shows nothing without a render_mode, such as render_mode='rgb_array'")
            return None
        return self.world.render(self.row)

    def get_state(self) -> bytes:
        """Everything that decides what happens next."""
        its = slice(self._place, self._place + 1)
        state: bytes = self._rows.state[its].tobytes() + self._rows.infos[its].tobytes()
        return state

    def set_state(self, state: bytes) -> None:
        """Go on from there."""
        its, size = slice(self._place, self._place + 1), self._rows.state.dtype.itemsize
        self._rows.state[its] = np.frombuffer(state[:size], self._rows.state.dtype)
        self._rows.infos[its] = np.frombuffer(state[size:], self._rows.infos.dtype)

    def seed_stream(self, seed: int) -> None:
        """Begin the row's random numbers anew."""
        self._rows.seed(self._place, seed)

    @property
    def random_words(self) -> tuple[int, ...]:
        """Where the row's random numbers are, and what else it begins an episode with, as five words of 64 bits."""
        more: list[int] = self._rows.start_words(self._index)[0].tolist()
        return int(self.row.key) % 2**64, int(self.row.drawn), *more

    @random_words.setter
    def random_words(self, words: tuple[int, ...]) -> None:
        self._rows.state.key[self._place] = np.uint64(words[0]).astype(np.int64)
        self._rows.state.drawn[self._place] = words[1]
        self._rows.set_start_words(self._place, words[2:])

    def __getattr__(self, name: str) -> Any:
        # What is not the row's is the world's: env.desc, for example.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._rows.world, name)


class WorldEnv(RowEnv):
    """A world with a single row: a batch of one. A subclass names the world."""

    world_class: ClassVar[type[World]]

    make_rows: ClassVar[Callable[..., Rows] | None]
    """Makes many of them, to be stepped together: what the engine uses instead of many single environments."""

    def __init_subclass__(cls) -> None:
        # Gymnasium looks at the class before it makes one.
        cls.metadata = cls.world_class.metadata
        # Who overrides what one environment does does not mean what all of them do together.
        is_plain = all(getattr(cls, name) is getattr(RowEnv, name) for name in ("step", "reset", "render"))
        cls.make_rows = cls._make_rows if is_plain else None

    def __init__(self, *, max_episode_steps: int | None = None, **keywords: Any) -> None:
        super().__init__(self._make_rows(1, max_episode_steps, **keywords), 0)
        space = self.observation_space
        self._rows.attach(np.zeros((1, *(space.shape or ())), space.dtype), np.zeros(1), *np.zeros((2, 1), np.bool_))

    @classmethod
    def _make_rows(cls, num_rows: int, max_episode_steps: int | None = None, **keywords: Any) -> Rows:
        known = list(inspect.signature(cls.world_class).parameters)
        for name in keywords:
            if name not in known:
                hint = did_you_mean(name, known) or f" There are {', '.join(known)}."
                raise ConfigurationError(f"{cls.world_class.__name__} has no option {name!r}.{hint}")
        return Rows(cls.world_class(**keywords), num_rows, max_episode_steps)
