"""Where a grading happens, in a worker: an environment whose step calls the function. Nothing that can be caught gets out.

A reset loads the function, which may import much and has a deadline of its own. So a worker that takes the place of another
is there at once, and the verdict on what the other was doing need not wait for imports.
"""

from __future__ import annotations

import os
import pickle
import resource
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.envs.texts.any_text import AnyText
from shoal.vector.pickling import dump_known

GROWN = 86
"""The exit code of a worker that met its memory limit, perhaps because of what was graded in it before."""
LONGEST_ERROR = 20_000
"""Characters of a traceback."""

LOADED, VALUE, ERROR = "loaded", "value", "error"
"""What an observation begins with."""

Seen = tuple[str, Any]


@dataclass(frozen=True)
class Grading:
    """A factory of grading environments."""

    function: bytes
    """The pickled function."""
    max_memory: int | None
    """Bytes."""

    def __call__(self) -> GradingEnv:
        """Nothing is loaded yet."""
        return GradingEnv(self)


class GradingEnv:
    """Grades one item in each step."""

    observation_space = action_space = AnyText()
    metadata: Mapping[str, Any] = {}

    def __init__(self, grading: Grading) -> None:
        self._grading = grading
        self._function: Callable[[Any], Any] | None = None
        self._num_graded = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Load the function."""
        try:
            self._function = pickle.loads(self._grading.function)
        except BaseException:
            return (ERROR, _told()), {}
        if self._grading.max_memory is not None:
            limit = _data_in_use() + self._grading.max_memory
            resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        return (LOADED, None), {}

    def step(self, item: bytes) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Grade an item."""
        assert self._function is not None
        try:
            seen: Seen = (VALUE, dump_known(self._function(pickle.loads(item))))
        except MemoryError:
            if self._num_graded:
                os._exit(GROWN)
            seen = (ERROR, f"it took more memory than max_memory={self._grading.max_memory} bytes\n{_told()}")
        except BaseException:  # KeyboardInterrupt and SystemExit, too: a function ends its own grading only
            seen = (ERROR, _told())
        self._num_graded += 1
        return seen, 0.0, False, False, {}

    def close(self) -> None:
        """Nothing is open."""


def _told() -> str:
    """What was raised, without this file's part."""
    try:
        return traceback.format_exc()[-LONGEST_ERROR:]
    except BaseException as error:  # what was raised cannot even be written down
        return f"{type(error).__name__} while an error was written down"


def _data_in_use() -> int:
    """Bytes of this process that count for the limit."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[5]) * resource.getpagesize()
