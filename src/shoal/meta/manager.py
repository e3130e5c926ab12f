"""``ParallelEnvManager``: environments that are each given tasks of their own, when the caller wants it.

::

    learner ──▶ remotes[i].send, .recv ──┐                      one environment at a time, in any order
    learner ──▶ reset(...), step(...) ───┴──▶ ParallelEnv ──▶   any of them together, which is quicker

Nobody is reset without being told: the learner decides who gets which task, and when. Some environments begin with a task
while others are in the middle of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from shoal.meta.remote import Remote
from shoal.meta.replies import info_of, infos_of
from shoal.vector.errors import AlreadyPending, ConfigurationError
from shoal.vector.layout import Array
from shoal.vector.messages import EnvFn
from shoal.vector.parallel_env import ParallelEnv
from shoal.vector.parts import Part
from shoal.vector.plan import Plan
from shoal.vector.tasks import Seeds, rows_of
from shoal.vector.wards import Stats

MOST_PARTS = 64
"""Of so many combinations of environments it is known what they need, which takes a moment to find out."""


class Stepped(NamedTuple):
    """What a step gives: row k is that of the k-th environment that was named."""

    observations: Array
    rewards: Array
    dones: Array
    """Whether the task is over."""
    infos: list[dict[str, Any]]


class ParallelEnvManager:
    """Runs one environment per factory. :func:`make_parallel_env` makes one by the id of an environment.

    Args:
        env_fns: one factory per environment.
        seed: environment i is reset with ``seed + i`` here, and ``action_space`` gets it too.
        num_processes: how many worker processes; by default, as many as pay.
        engine: further keywords of :class:`shoal.ParallelEnv`, such as ``backend``.
    """

    def __init__(
        self, env_fns: Sequence[EnvFn], *, seed: int | None = None, num_processes: int | None = None, **engine: Any
    ) -> None:
        self.envs = _opened(env_fns, num_workers=num_processes, **engine)
        """The environments, for everything else that can be asked of them."""
        self.num_workers = self.num_envs = self.envs.num_envs
        self._parts: dict[tuple[int, ...], Part] = {}
        still_open: set[int] = set()
        self.remotes = [Remote(self.envs, index, still_open) for index in range(self.num_envs)]
        """The environments one by one."""
        self.observation_space: spaces.Space[Any] = self.envs.single_observation_space
        self.action_space: spaces.Space[Any] = self.envs.single_action_space
        (self._about,) = self.envs._ask_of([0], about)
        self._have_all_begun = seed is not None
        if seed is not None:
            self.envs.reset(seed=seed)
            self.action_space.seed(seed)

    # -- what is known -----------------------------------------------------------------------------------------------

    @property
    def n_tasks(self) -> int | None:
        """How many numbered tasks there are; ``None`` if every task is drawn."""
        count: int | None = self._known("n_tasks")
        return count

    @property
    def episodes_per_task(self) -> int:
        """How many episodes a task is good for."""
        return int(self._known("episodes_per_task"))

    @property
    def horizon_bamdp(self) -> int:
        """How many steps a task takes at most."""
        return int(self._known("horizon_bamdp"))

    def get_all_task_idx(self) -> range:
        """The numbers of all numbered tasks."""
        return range(self.n_tasks or 0)

    @property
    def stats(self) -> Stats:
        """How many workers were replaced, and what that cost."""
        return self.envs.stats

    @property
    def plan(self) -> Plan:
        """Where the environments run, and why."""
        return self.envs.plan

    def _known(self, name: str) -> Any:
        if name not in self._about:
            raise AttributeError(f"the environments have no {name!r}")
        return self._about[name]

    # -- many at a time ----------------------------------------------------------------------------------------------

    def reset(self, tasks: Any = None, seeds: Seeds = None, env_ids: Any = None) -> tuple[Array, list[dict[str, Any]]]:
        """Begin tasks in these environments, or in all; the others stay where they are.

        Args:
            tasks: a number for each environment that is named, or ``None`` for a task that is drawn; or one for all.
            seeds: one for each, or ``None``; a number gives environment i that number plus i.
            env_ids: which environments, in which order.
        """
        rows = self._free(env_ids)
        options = _options(tasks, len(rows))
        is_all = len(rows) == self.num_envs
        if (is_all or self._have_all_begun) and not any(remote.is_pending for remote in self.remotes):
            self._have_all_begun = True
            # Together, and not as a part: who sends environments off leaves `auto` no time to find out what steps take.
            observations, infos = self.envs.reset(seed=seeds, options=options, env_ids=rows)
            return observations[rows], [info_of(infos, row) for row in rows]
        observations, infos = self._part(rows).reset(seed=seeds, options=options)
        return observations, infos_of(infos, len(rows))

    def step(self, actions: Any, env_ids: Any = None) -> Stepped:
        """Take a step in these environments, or in all, and wait for all of these."""
        rows = self._free(env_ids)
        is_all = rows == list(range(self.num_envs))
        stepped = self.envs.step(actions) if is_all else self._part(rows).step(actions)
        observations, rewards, terminated, truncated, infos = stepped
        return Stepped(observations, rewards, terminated | truncated, infos_of(infos, len(rows)))

    def _free(self, env_ids: Any) -> list[int]:
        rows = rows_of(env_ids, self.num_envs)
        busy = [row for row in rows if self.remotes[row].is_pending]
        if busy:
            raise AlreadyPending(
                f"environments {busy} were sent something whose answer was not received. Call recv() of their remotes "
                "first. Nothing was sent.",
                "send",
            )
        return rows

    def _part(self, rows: list[int]) -> Part:
        part = self._parts.get(tuple(rows))
        if part is None:
            if len(self._parts) >= MOST_PARTS:
                self._parts.pop(next(iter(self._parts)))
            part = self._parts[tuple(rows)] = Part(self.envs, rows, None)
        return part

    # -- closing -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End all environments and their workers, whatever they are doing. May be called twice."""
        if not self.envs.closed:
            self.envs.__exit__()  # which, unlike its close(), does not warn of what nobody has received

    def __del__(self) -> None:
        if "envs" in self.__dict__:
            self.close()

    def __enter__(self) -> ParallelEnvManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.num_envs


def about(env: Any) -> dict[str, Any]:
    """What an environment says about its tasks."""
    known = {}
    for name in ("n_tasks", "episodes_per_task", "horizon_bamdp"):
        try:
            known[name] = env.get_wrapper_attr(name)
        except (AttributeError, ConfigurationError):
            pass  # said to whoever asks
    return known


def _options(tasks: Any, count: int) -> list[dict[str, Any]]:
    if tasks is None or isinstance(tasks, int | np.integer):
        tasks = [tasks] * count
    if isinstance(tasks, str) or not isinstance(tasks, Sequence | np.ndarray) or len(tasks) != count:
        raise ConfigurationError(
            f"tasks must be one for each of the {count} environments, or one for all, got {tasks!r}"
        )
    return [{"task": task.item() if isinstance(task, np.generic) else task} for task in tasks]


def _opened(env_fns: Sequence[EnvFn], **engine: Any) -> ParallelEnv:
    """Environments that are reset by the caller alone."""
    try:
        return ParallelEnv(env_fns, autoreset_mode=AutoresetMode.DISABLED, **engine)
    except ConfigurationError as error:
        # What is called num_workers there are processes here.
        raise type(error)(str(error).replace("num_workers", "num_processes")) from error
