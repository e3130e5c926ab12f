"""What members of a group share. They always share the task's seed, and so the prompt; the noise's seed as is wished.

``common``
    All have the same noise: the same action leads to the same slip, and to the same reward.
``independent``
    Each has noise of its own, so that rewards differ by chance, too.
``antithetic``
    Members 0 and 1, 2 and 3, … are pairs: where the noise of one is u, that of the other is 1 - u.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.vector.arguments import check_choice, check_count
from shoal.vector.errors import ConfigurationError
from shoal.vector.tasks import Task

SHARING = ("common", "independent", "antithetic")


def member_options(
    task_seed: int, group_size: int, noise: str = "common", *, noise_seed: int | None = None
) -> list[dict[str, Any]]:
    """The options with which each member of a group is reset.

    Args:
        task_seed: what decides where the episode begins.
        group_size: how many members there are.
        noise: ``"common"``, ``"independent"`` or ``"antithetic"``.
        noise_seed: what decides all noise of the group; by default the task's seed.
    """
    check_count("group_size", group_size)
    check_choice("noise", noise, SHARING)
    origin = task_seed if noise_seed is None else noise_seed
    if noise == "common":
        return [{"task_seed": task_seed, "noise_seed": origin} for _ in range(group_size)]
    if noise == "independent":
        return [{"task_seed": task_seed, "noise_seed": _child(origin, member)} for member in range(group_size)]
    return [
        {"task_seed": task_seed, "noise_seed": _child(origin, member // 2), "mirrored": bool(member % 2)}
        for member in range(group_size)
    ]


def _child(seed: int, number: int) -> int:
    """A seed that has nothing to do with its neighbours."""
    return int(np.random.SeedSequence([seed % 2**64, number]).generate_state(1, np.uint64)[0] >> np.uint64(1))


@dataclass(frozen=True)
class GroupTasks:
    """A task source, for ``tasks=``: members of a group are given the same task, in every episode another one.

    Group g begins its episode e with the task seed ``seed + e * num_groups + g``.
    """

    num_groups: int
    group_size: int
    seed: int = 0
    """The first task's seed."""
    noise: str = "common"
    """``"common"``, ``"independent"`` or ``"antithetic"`` within a group."""

    def __post_init__(self) -> None:
        check_count("num_groups", self.num_groups)
        check_count("group_size", self.group_size)
        check_choice("noise", self.noise, SHARING)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ConfigurationError(f"seed must be a whole number of at least 0, got {self.seed!r}")

    def __call__(self, group: int, episode: int) -> Task:
        """The task, with what is each member's own."""
        task_seed = self.seed + episode * self.num_groups + group
        if self.noise == "common":
            return Task(seed=task_seed, id=task_seed)
        members = member_options(task_seed, self.group_size, self.noise)
        for options in members:
            del options["task_seed"]  # so that a seed that the caller gives is the task's, as with any other source
        return Task(seed=task_seed, members=tuple(members), id=task_seed)
