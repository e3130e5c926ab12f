"""A world: many environments of one kind, whose rules are compiled and whose state is an array.

Whoever writes a world writes the rules for one row::

    begin_row(tables, row, info)             begin an episode
    step_row(tables, row, action, info)      take a step; returns the reward and whether the episode has ended
    observe_row(tables, row, observation)    write down what is seen

``row`` has the fields that the world declares, ``tables`` is what all rows share and nobody changes. :class:`Rows` runs them
over any number of rows in one call, with autoreset and time limit, and draws no distinction between one row and thousands.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from gymnasium import spaces

from shoal.envs.chance import STREAM, key_of
from shoal.envs.compiling import for_types_of, loop_over_rows, rule
from shoal.vector.batched import DISABLED, NEXT_STEP, SAME_STEP
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

if TYPE_CHECKING:
    from shoal.envs.world_env import RowEnv

UNLIMITED = 2**62
NUM_START_WORDS = 3
_CLOCK = (("episode", "i8"), ("origin", "i8"), ("steps", "i8"), ("is_due", "?"))
"""The episode's number, how many numbers had been drawn before it, its steps, and whether the next step begins another."""


@rule
def note_beginning(row: Any) -> None:
    """An episode begins."""
    row.episode += 1
    row.origin = row.drawn
    row.steps = 0
    row.is_due = False


def make_step_loop(begin_row: Any, step_row: Any, observe_row: Any, digest: int) -> Callable[..., int]:
    """The loop that takes a step in every row."""

    def step_rows(
        tables: Any, rows: Any, infos: Any, index: Any, actions: Any, mode: int, limit: int,
        observations: Any, final_observations: Any, final_infos: Any, rewards: Any, terminateds: Any, truncateds: Any,
    ) -> int:  # fmt: skip
        num_ended = 0 * digest  # which has no other use than to make this another function
        for i in index:
            row, info = rows[i], infos[i]
            if row.is_due:
                note_beginning(row)
                begin_row(tables, row, info)
                rewards[i], terminateds[i], truncateds[i] = 0.0, False, False
            else:
                row.steps += 1
                reward, terminated = step_row(tables, row, actions[i], info)
                truncated = row.steps >= limit
                rewards[i], terminateds[i], truncateds[i] = reward, terminated, truncated
                if terminated or truncated:
                    num_ended += 1
                    if mode == NEXT_STEP:
                        row.is_due = True
                    elif mode == SAME_STEP:
                        observe_row(tables, row, final_observations[i])
                        final_infos[i] = info
                        note_beginning(row)
                        begin_row(tables, row, info)
            observe_row(tables, row, observations[i])
        return num_ended

    return step_rows


def make_begin_loop(begin_row: Any, observe_row: Any, digest: int) -> Callable[..., None]:
    """The loop that begins an episode in every row."""

    def begin_rows(tables: Any, rows: Any, infos: Any, index: Any, observations: Any) -> None:
        for i in index[0 * digest :]:  # all of them; the digest makes this another function
            row = rows[i]
            note_beginning(row)
            begin_row(tables, row, infos[i])
            observe_row(tables, row, observations[i])

    return begin_rows


class World:
    """What all rows of a world have in common. A subclass gives the rules, the spaces and the tables."""

    fields: ClassVar[Sequence[tuple[Any, ...]]] = ()
    """What a row remembers, as fields of a NumPy record."""
    infos: ClassVar[Sequence[tuple[Any, ...]]] = ()
    """What a step says beside its results, one number for each."""
    start_fields: ClassVar[Sequence[str]] = ()
    """What an episode begins with beside its random numbers, such as a task: up to three fields of 8 bytes, which rules do not
    change once they are there."""
    env_class: ClassVar[Any] = None
    """What one row is as an environment, if that is more than a :class:`RowEnv`."""
    begin_row: ClassVar[Callable[..., None]]
    step_row: ClassVar[Callable[..., tuple[float, bool]]]
    observe_row: ClassVar[Callable[..., None]]
    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    tables: Any
    """What the rules are given: an array, or a tuple of arrays and numbers. Nobody may change it."""
    render_mode: str | None = None

    @classmethod
    @functools.cache
    def loops(cls) -> tuple[Callable[..., None], Callable[..., int]]:
        """What begins an episode in many rows, and what takes a step in them."""
        begin, step, observe = cls.begin_row, cls.step_row, cls.observe_row
        return (
            loop_over_rows(make_begin_loop, begin, observe, name=cls.__name__),
            loop_over_rows(make_step_loop, begin, step, observe, name=cls.__name__),
        )

    @classmethod
    def row_type(cls) -> np.dtype[Any]:
        """A row as it lies in memory."""
        return np.dtype([*STREAM, *_CLOCK, *cls.fields], align=True)

    def take_options(self, row: Any, options: dict[str, Any]) -> None:
        """What ``reset(options=...)`` of one row asks for, before the episode begins. By default nothing is known."""

    def render(self, row: Any) -> Any:
        """A picture of one row, or a text, as ``render_mode`` says."""
        raise NotImplementedError(f"{type(self).__name__} cannot be drawn")


def _room_for(space: spaces.Space[Any], num_rows: int) -> Array:
    if space.shape is None:
        raise ConfigurationError(f"a world needs spaces of a fixed shape, such as Box and Discrete, got {space}")
    return np.zeros((num_rows, *space.shape), space.dtype)


class Rows:
    """Some rows of a world."""

    def __init__(self, world: World, num_rows: int, max_episode_steps: int | None = None) -> None:
        self.world = world
        self.state = np.zeros(num_rows, world.row_type()).view(np.recarray)
        # Numba needs at least one field.
        self.infos = np.zeros(num_rows, np.dtype([*(world.infos or [("nothing", "i1")])], align=True)).view(np.recarray)
        self.limit = UNLIMITED if max_episode_steps is None else max_episode_steps
        self.everybody = np.arange(num_rows)
        self._begin, self._step = world.loops()
        self._forget_types()
        self.final_observations = _room_for(world.observation_space, num_rows).reshape(num_rows, -1)
        self._own_actions = _room_for(world.action_space, num_rows)
        self.final_infos = self.infos.copy()
        self._find_columns()
        entropy = secrets.randbits(62)
        self.state.episode[:] = -1
        self.state.key[:] = [key_of(entropy + place) for place in range(num_rows)]

    def _find_columns(self) -> None:
        # Once: a field of a record array takes longer to find than to copy.
        self._columns = {name: self.infos.view(np.ndarray)[name] for name, *_ in self.world.infos}

    def __getstate__(self) -> dict[str, Any]:
        """What a copy is made from: without compiled code, and without views of what is copied."""
        left_out = ("_columns", "_begin", "_step", "_quick_begin", "_quick_step")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin, self._step = self.world.loops()
        self._forget_types()
        self._find_columns()

    def _forget_types(self) -> None:
        # To find out the types of arguments takes longer than a step of many rows.
        self._quick_begin: Callable[..., None] | None = None
        self._quick_step: Callable[..., int] | None = None

    def renew(self, place: int, entropy: int) -> None:
        """Let a row be as if it had just been made, with random numbers that nobody has asked for."""
        self.state[place : place + 1] = np.zeros(1, self.state.dtype)
        self.infos[place : place + 1] = np.zeros(1, self.infos.dtype)
        self.state.episode[place] = -1
        self.seed(place, entropy)

    def seed(self, place: int, seed: int) -> None:
        """Begin a row's random numbers anew."""
        self.state.key[place], self.state.drawn[place] = key_of(seed), 0

    def attach(self, observations: Array, reward: Array, terminated: Array, truncated: Array) -> None:
        """Say where results go: arrays with a row for each of these rows."""
        self._observations = observations.reshape(len(self.state), -1)
        self._forget_types()
        self._flags = reward, terminated.view(np.bool_), truncated.view(np.bool_)

    def begin(self, index: Array) -> None:
        """Begin an episode in these rows."""
        arguments = (self.world.tables, self.state, self.infos, index, self._observations)
        if self._quick_begin is None:
            self._quick_begin = for_types_of(self._begin, arguments)
        self._quick_begin(*arguments)

    def step(self, index: Array, actions: Array, mode: int) -> int:
        """Take a step in these rows, with the actions of all rows; returns in how many an episode has ended."""
        arguments = (
            self.world.tables, self.state, self.infos, index, actions, mode, self.limit,
            self._observations, self.final_observations, self.final_infos, *self._flags,
        )  # fmt: skip
        if self._quick_step is None:
            self._quick_step = for_types_of(self._step, arguments)
        return self._quick_step(*arguments)

    def step_one(self, place: int, index: Array, action: Any) -> tuple[float, bool, bool]:
        """Take a step in one row, without autoreset; returns reward, terminated and truncated."""
        self._own_actions[place] = action
        self.step(index, self._own_actions, DISABLED)
        reward, terminated, truncated = self._flags
        return float(reward[place]), bool(terminated[place]), bool(truncated[place])

    def observation_of(self, place: int) -> Any:
        """What a row shows, as a single environment returns it."""
        return self._single(self._observations[place])

    def _single(self, values: Array) -> Any:
        values = values.reshape(self.world.observation_space.shape)
        return values.copy() if values.shape else values.item()

    def env(self, place: int) -> RowEnv:
        """One row, as an environment."""
        from shoal.envs.world_env import RowEnv

        env: RowEnv = (self.world.env_class or RowEnv)(self, place)
        return env

    def start_words(self, places: Any) -> Array:
        """The start fields of these rows, and zeros after them: three words each."""
        words = np.zeros((len(places), NUM_START_WORDS), np.uint64)
        for number, name in enumerate(self.world.start_fields):
            words[:, number] = self.state.view(np.ndarray)[name][places].view(np.uint64)
        return words

    def set_start_words(self, place: int, words: Sequence[int]) -> None:
        """Give a row the start fields that these words say."""
        for name, word in zip(self.world.start_fields, words, strict=False):
            self.state.view(np.ndarray)[name][place : place + 1].view(np.uint64)[0] = word

    def columns(self, places: Any) -> dict[str, Array]:
        """What the last step of these rows said beside its results, name by name."""
        return {name: column[places].copy() for name, column in self._columns.items()}

    def ending(self, place: int) -> dict[str, Any]:
        """How an episode ended that was followed by another in the same step."""
        info = {name: self.final_infos[name][place].item() for name, *_ in self.world.infos}
        return {"final_obs": self._single(self.final_observations[place]), "final_info": info}

    def info_of(self, place: int) -> dict[str, Any]:
        """What the last step or reset of a row said beside its results."""
        return {name: column[place].item() for name, column in self._columns.items()}
