"""Resets: which environments begin an episode, and with which task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.vector.errors import ConfigurationError
from shoal.vector.face import Face
from shoal.vector.groups import Groups, group_size_of
from shoal.vector.messages import Reset
from shoal.vector.snapshot import snapshot
from shoal.vector.tasks import (
    Options,
    Seeds,
    TaskFunction,
    TaskSource,
    options_of,
    rows_of,
    seeds_of,
    task_source_of,
)


class Tasked(Face):
    """A face whose environments are given tasks, alone or in groups."""

    group_size: int
    """How many environments make a group; 1 without groups."""
    num_groups: int
    _task_source: TaskSource | None

    def _arrange_tasks(
        self,
        num_envs: int,
        groups: int | None,
        group_size: int | None,
        check_groups: bool,
        tasks: TaskFunction | Sequence[Any] | None,
    ) -> None:
        self.group_size = group_size_of(groups, group_size, num_envs)
        self.num_groups = num_envs // self.group_size
        self._groups = Groups(self.group_size, is_checked=check_groups)
        self._task_source = task_source_of(tasks, num_envs, self.group_size)

    def group(self, group_id: int) -> range:
        """The environments of a group."""
        (group,) = rows_of([group_id], self.num_groups, "group_id")
        return range(group * self.group_size, (group + 1) * self.group_size)

    def _rows_of(self, env_ids: Any, group_ids: Any) -> list[int]:
        if group_ids is None:
            return rows_of(env_ids, self.num_envs)
        if env_ids is not None:
            raise ConfigurationError("env_ids and group_ids were both given: name environments one way or the other")
        groups = rows_of(group_ids, self.num_groups, "group_ids")
        return [row for group in groups for row in self.group(group)]

    def _resets(self, rows: list[int], seed: Seeds, options: Options) -> dict[int, list[Reset]]:
        """What each worker is told when these are reset."""
        if self._task_source is None:
            seed = self._groups.seeds_for(seed, rows)
        seeds = seeds_of(seed, rows, self.num_envs, self.group_size)
        # Copied, because it may have to be done again when the caller has changed it.
        each = [snapshot(one) for one in options_of(options, rows, self.group_size)]
        resets = {row: Reset(row, seed, options) for row, seed, options in zip(rows, seeds, each, strict=True)}
        return {worker: [resets[row] for row in its] for worker, its in self._by_worker(rows).items()}
