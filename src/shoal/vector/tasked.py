"""Resets: which environments begin an episode, and with which task, alone or in groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.vector.errors import ConfigurationError
from shoal.vector.groups import Groups, group_size_of
from shoal.vector.messages import Reset
from shoal.vector.snapshot import snapshot
from shoal.vector.tasks import (
    Options,
    Seeds,
    TaskFunction,
    options_of,
    rows_of,
    seeds_of,
    task_source_of,
)


class Tasks:
    """Gives environments their tasks."""

    def __init__(
        self,
        num_envs: int,
        groups: int | None,
        group_size: int | None,
        check_groups: bool | str,
        tasks: TaskFunction | Sequence[Any] | None,
    ) -> None:
        self._num_envs = num_envs
        self.group_size = group_size_of(groups, group_size, num_envs)
        self.num_groups = num_envs // self.group_size
        self.groups = Groups(self.group_size, check=check_groups)
        self.source = task_source_of(tasks, num_envs, self.group_size)

    def group(self, group_id: int) -> range:
        """The environments of a group."""
        (group,) = rows_of([group_id], self.num_groups, "group_id")
        return range(group * self.group_size, (group + 1) * self.group_size)

    def rows_of(self, env_ids: Any, group_ids: Any) -> list[int]:
        """Environments that are named by index, or by the index of their group."""
        if group_ids is None:
            return rows_of(env_ids, self._num_envs)
        if env_ids is not None:
            raise ConfigurationError("env_ids and group_ids were both given: name environments one way or the other")
        groups = rows_of(group_ids, self.num_groups, "group_ids")
        return [row for group in groups for row in self.group(group)]

    def resets(self, rows: list[int], seed: Seeds, options: Options) -> list[Reset]:
        """What these are told when they are reset."""
        if self.source is None:
            seed = self.groups.seeds_for(seed, rows)
        seeds = seeds_of(seed, rows, self._num_envs, self.group_size)
        # Copied, because it may have to be done again when the caller has changed it.
        each = [snapshot(one) for one in options_of(options, rows, self.group_size)]
        return [Reset(row, seed, options) for row, seed, options in zip(rows, seeds, each, strict=True)]
