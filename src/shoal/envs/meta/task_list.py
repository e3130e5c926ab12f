"""Numbered tasks, the same in every process.

Task number i of a world is decided by ``task_seed`` and i, and by nothing else: not by how many tasks there are, not by the
environment's random numbers, and not by Python's or NumPy's global ones. So a training environment in a worker, one in another
worker and the one for evaluation mean the same by "task 7".
"""

from __future__ import annotations

import hashlib
import operator
from typing import Any

from shoal.vector.errors import ConfigurationError


def number_of_tasks(n_tasks: int | None, num_train_tasks: int | None, num_eval_tasks: int | None) -> int | None:
    """How many numbered tasks there are; ``None`` if every task is drawn anew.

    Without training tasks there are none: evaluation tasks are then drawn, too.
    """
    counts = {"n_tasks": n_tasks, "num_train_tasks": num_train_tasks, "num_eval_tasks": num_eval_tasks}
    for name, count in counts.items():
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise ConfigurationError(f"{name} must be a whole number of at least 1, or None, got {count!r}")
    if num_train_tasks is None:
        return n_tasks
    total = num_train_tasks + (num_eval_tasks or 0)
    if n_tasks is not None and n_tasks != total:
        raise ConfigurationError(
            f"n_tasks={n_tasks}, but num_train_tasks and num_eval_tasks are {total} together: leave n_tasks out"
        )
    return total


def fractions(task_seed: int, number: int, count: int) -> list[float]:
    """So many numbers from 0 up to, but not including, 1, which belong to this task."""
    digest = hashlib.blake2b(f"{task_seed}/{number}".encode(), digest_size=8 * count).digest()
    parts = (digest[8 * place : 8 * place + 8] for place in range(count))
    return [(int.from_bytes(part, "little") >> 11) / 2**53 for part in parts]


def checked(number: Any, n_tasks: int | None) -> int:
    """The number of a task that there is."""
    if n_tasks is None:
        raise ConfigurationError(
            f"there is no task {number!r}: these tasks have no numbers, each is drawn anew (task=None). "
            "What to do: make the environment with n_tasks=, or num_train_tasks= and num_eval_tasks="
        )
    try:
        index = operator.index(number)
    except TypeError:
        index = -1
    if isinstance(number, bool) or not 0 <= index < n_tasks:
        raise ConfigurationError(f"a task is a number from 0 to {n_tasks - 1}, or None to draw one, got {number!r}")
    return index
