"""Tasks: with which seed and options an episode begins.

Who says so, in this order::

    reset(seed=…, options=…), send_reset(…)     the caller, for this reset
    tasks=…                                     a task source, for every reset that the caller says nothing about,
                                                autoresets above all
    nobody                                      the environment goes on with its own random numbers

A source is asked where the environment is, by the runner, so a new episode waits for nobody. It is a function of the
environment's index (or its group's) and of how many episodes this environment has begun before, and of nothing else: so it
gives the same tasks on every backend, and gives them again when a lost environment is brought back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

Seeds = int | Sequence[int | None] | None
Options = dict[str, Any] | Sequence[dict[str, Any] | None] | None


class Task(NamedTuple):
    """What one episode of one environment begins with. Its ``id`` is in the reset's info as ``"task_id"``."""

    seed: int | None = None
    options: dict[str, Any] | None = None
    id: Any = None
    members: Sequence[Mapping[str, Any]] | None = None
    """Options that members of a group have of their own, one dictionary for each, added to ``options``."""


TaskFunction = Callable[[int, int], Any]
"""From the index of an environment (or group) and the number of its episode to a task, a seed or options."""


@dataclass(frozen=True)
class TaskSource:
    """Deals out tasks."""

    deal: TaskFunction
    group_size: int = 1

    def task_for(self, env_index: int, episode: int) -> Task:
        """The task of this environment's episode."""
        group, member = divmod(env_index, self.group_size)
        task = as_task(self.deal(group, episode))
        return task if task.members is None else self._for_member(task, task.members, member)

    def _for_member(self, task: Task, members: Sequence[Mapping[str, Any]], member: int) -> Task:
        if len(members) != self.group_size:
            raise ConfigurationError(
                f"a task has options for {len(members)} members, but a group has {self.group_size}: "
                "give one dictionary for each"
            )
        return task._replace(options={**(task.options or {}), **members[member]}, members=None)


def as_task(given: Any) -> Task:
    """What a task source gave, as a task."""
    if isinstance(given, Task):
        return given
    if given is None:
        return Task()
    if isinstance(given, Mapping):
        return Task(options=dict(given))
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return Task(seed=int(given))
    raise TypeError(f"a task must be a shoal.Task, a seed, a dictionary of options or None, got {given!r}")


@dataclass(frozen=True)
class RoundRobin:
    """A list of tasks, dealt out in turn: episode e of environment (or group) i gets number i + e * count."""

    tasks: tuple[Any, ...]
    count: int

    def __call__(self, index: int, episode: int) -> Task:
        """The task, with its place in the list as its id if it has none."""
        number = (index + episode * self.count) % len(self.tasks)
        task = as_task(self.tasks[number])
        return task if task.id is not None else task._replace(id=number)


def task_source_of(tasks: TaskFunction | Sequence[Any] | None, num_envs: int, group_size: int) -> TaskSource | None:
    """What ``tasks=`` means."""
    if tasks is None:
        return None
    if callable(tasks):
        return TaskSource(tasks, group_size)
    if isinstance(tasks, Sequence) and not isinstance(tasks, str | bytes) and len(tasks):
        return TaskSource(RoundRobin(tuple(tasks), num_envs // group_size), group_size)
    raise ConfigurationError(
        "tasks must be a function of an environment's index and the number of its episode, or a list of tasks that is not "
        f"empty, got {tasks!r}"
    )


def seeds_of(seed: Seeds, rows: Sequence[int], num_envs: int, group_size: int = 1) -> list[int | None]:
    """One seed for each of ``rows``: ``seed`` plus the index of the environment or its group, or its own element."""
    if seed is None:
        return [None] * len(rows)
    if isinstance(seed, np.ndarray) and not seed.ndim:
        seed = seed.item()
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        if seed < 0:
            raise ConfigurationError(f"seed must not be negative, got {seed}")
        return [int(seed) + row // group_size for row in rows]
    if isinstance(seed, str | bytes) or not isinstance(seed, Sequence | np.ndarray):
        raise ConfigurationError(f"seed must be a whole number, a sequence of them, or None, got {seed!r}")
    seeds = _dealt(list(seed), rows, group_size)
    if seeds is None:
        raise ConfigurationError(
            f"If seeds are passed as a list the length must match num_envs={num_envs} but got length={len(seed)}."
            if len(rows) == num_envs
            else f"{len(seed)} seeds were given for {len(rows)} environments"
        )
    for index, one in enumerate(seeds):
        if one is not None and (isinstance(one, bool) or not isinstance(one, int | np.integer)):
            raise ConfigurationError(f"seed[{index}] must be a whole number or None, got {one!r}")
        if one is not None and one < 0:
            raise ConfigurationError(f"seed[{index}] must not be negative, got {one}")
    return [None if one is None else int(one) for one in seeds]


def options_of(options: Options, rows: Sequence[int], group_size: int = 1) -> list[dict[str, Any] | None]:
    """The options of each of ``rows``: the same for all, or its own element."""
    if options is None or isinstance(options, Mapping):
        return [options] * len(rows)
    if isinstance(options, str | bytes) or not isinstance(options, Sequence | np.ndarray):
        raise ConfigurationError(f"options must be a dictionary, a sequence of them, or None, got {options!r}")
    each = _dealt(list(options), rows, group_size)
    if each is None:
        raise ConfigurationError(f"{len(options)} options were given for {len(rows)} environments")
    for index, one in enumerate(each):
        if one is not None and not isinstance(one, Mapping):
            raise ConfigurationError(f"options[{index}] must be a dictionary or None, got {one!r}")
    return each


def _dealt(values: list[Any], rows: Sequence[int], group_size: int) -> list[Any] | None:
    """One value for each row, from one for each row or one for each group of them; ``None`` if they are too few or many."""
    if len(values) == len(rows):
        return values
    groups = list(dict.fromkeys(row // group_size for row in rows))
    if len(values) != len(groups):
        return None
    by_group = dict(zip(groups, values, strict=True))
    return [by_group[row // group_size] for row in rows]


def reset_mask_of(options: Options, num_envs: int) -> tuple[Options, Array | None]:
    """The options without ``"reset_mask"``, and the mask. The caller's dictionary stays as it is."""
    if not isinstance(options, Mapping) or "reset_mask" not in options:
        return options, None
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"`options['reset_mask']` must be a numpy array, got {type(mask)}")
    if mask.shape != (num_envs,):
        raise ConfigurationError(f"`options['reset_mask']` must have shape `({num_envs},)`, got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"`options['reset_mask']` must have `dtype=np.bool_`, got {mask.dtype}")
    if not mask.any():
        raise ConfigurationError(
            f"`options['reset_mask']` must contain a boolean array with at least one True value, got reset_mask={mask}"
        )
    return {key: value for key, value in options.items() if key != "reset_mask"}, mask


def rows_of(env_ids: Any, num_envs: int, name: str = "env_ids") -> list[int]:
    """Environments named by index: as a list without repetition, within range."""
    if env_ids is None:
        return list(range(num_envs))
    if isinstance(env_ids, np.ndarray) and env_ids.dtype == np.bool_:
        if env_ids.shape != (num_envs,):
            raise ConfigurationError(f"{name}: a mask must have shape ({num_envs},), got {env_ids.shape}")
        env_ids = np.flatnonzero(env_ids)
    if isinstance(env_ids, str | bytes) or not isinstance(env_ids, Sequence | np.ndarray):
        raise ConfigurationError(f"{name} must be a sequence of indices, got {env_ids!r}")
    rows = []
    for env_id in env_ids:
        if isinstance(env_id, bool | np.bool_) or not isinstance(env_id, int | np.integer):
            raise ConfigurationError(f"{name} must be whole numbers, got {env_id!r}")
        if not 0 <= env_id < num_envs:
            raise ConfigurationError(f"{name}: there is no {int(env_id)}; they are numbered from 0 to {num_envs - 1}")
        rows.append(int(env_id))
    if len(set(rows)) != len(rows):
        repeated = sorted({row for row in rows if rows.count(row) > 1})
        raise ConfigurationError(f"{name} names {repeated} more than once")
    if not rows:
        raise ConfigurationError(f"{name} is empty")
    return rows
