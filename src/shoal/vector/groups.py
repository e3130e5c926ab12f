"""Groups: environments that get the same task, so that what they do with it can be compared.

Environment i belongs to group ``i // group_size``. With a number as seed, group g gets ``seed + g``; without one, the seed is
drawn once per group. Whether members really start from the same observation is checked, because much goes wrong there:
global random numbers, the order of hashes, state that is shared between environments of one process and not of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.vector.arguments import check_count
from shoal.vector.errors import ConfigurationError, GroupMismatch
from shoal.vector.sameness import difference
from shoal.vector.tasks import Seeds

LARGEST_SEED = 2**31 - 1


def group_size_of(groups: int | None, group_size: int | None, num_envs: int) -> int:
    """How many environments make a group: 1 if there are no groups."""
    for name, value in (("groups", groups), ("group_size", group_size)):
        if value is not None:
            check_count(name, value)
    if groups is None and group_size is None:
        return 1
    size = group_size if group_size is not None else num_envs // (groups or 1)
    count = groups if groups is not None else num_envs // size
    if size * count != num_envs:
        raise ConfigurationError(
            f"groups={count} of group_size={size} are {size * count} environments, but there are {num_envs}"
        )
    return size


class Groups:
    """Draws seeds for groups, and compares how their members start."""

    def __init__(self, group_size: int, *, check: bool | str) -> None:
        if not isinstance(check, bool) and check != "count":
            raise ConfigurationError(f"check_groups must be True, False or 'count', got {check!r}")
        self.size = group_size
        self._is_checked = bool(check) and group_size > 1
        self._is_counted = check == "count"
        self.num_compared = self.num_mismatches = 0
        self._random = np.random.default_rng()
        self._starts: dict[tuple[int, int], tuple[int, Any]] = {}
        self._resets = 0
        self._reset_of: dict[int, int] = {}

    def seeds_for(self, seed: Seeds, rows: Sequence[int]) -> Seeds:
        """The caller's seeds; or, where there are groups and none were given, the same for all members of one."""
        if isinstance(seed, int | np.integer):
            self._random = np.random.default_rng(abs(int(seed)))
        if seed is not None or self.size == 1:
            return seed
        groups = dict.fromkeys(row // self.size for row in rows)
        drawn = {group: int(self._random.integers(LARGEST_SEED)) for group in groups}
        return [drawn[row // self.size] for row in rows]

    def expect(self, rows: Sequence[int]) -> None:
        """These are reset together, and should start alike within a group."""
        if self._is_checked:
            self._resets += 1
            self._starts = {key: start for key, start in self._starts.items() if key[1] in self._reset_of.values()}
            self._reset_of.update(dict.fromkeys(rows, self._resets))

    def compare(self, row: int, observation: Any) -> None:
        """See how this one starts, if it was reset; raises if another member of its group started otherwise."""
        reset = self._reset_of.pop(row, None)
        if reset is None:
            return
        group = row // self.size
        other, start = self._starts.setdefault((group, reset), (row, observation))
        if other == row:
            return
        self.num_compared += 1
        if found := difference(start, observation, "observation"):
            self.num_mismatches += 1
            if self._is_counted:
                return
            raise GroupMismatch(
                f"environments {other} and {row} of group {group} were given the same task, but do not start from the same "
                f"observation ({found}, of environments {other} and {row}).\n"
                "  Likely cause: global random numbers (isolate_rng=True cures that), the order of hashes, or state that "
                "environments share; shoal.testing.check_parallel finds out.\n"
                "  What to do: cure it, or pass check_groups=False if members may start differently, or "
                'check_groups="count" to count in envs.stats how often they do.'
            )
