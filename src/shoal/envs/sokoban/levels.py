"""Levels by task seed: made once for all environments of this process that ask for the same, and ahead where that pays.

A level depends on its room and its task seed alone, so it does not matter who makes it or when::

    environments ──of(seed)───────> made before?  yes: that one
         │                                        no: made now
         └────prepare(seeds)──> waiting ──> a thread that makes them, and ends when none is left

Rules run without the interpreter's lock, so the thread is in nobody's way as long as there is a processor for it.
"""

from __future__ import annotations

import functools
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable

import numpy as np

from shoal.envs.sokoban.cells import Room
from shoal.envs.sokoban.config import SokobanConfig
from shoal.envs.sokoban.world import Sokoban
from shoal.envs.world import Rows

MOST_KEPT = 4096
MOST_WAITING = 1024
SLOW_SECONDS = 0.0005
"""Levels that take longer are made ahead. Others are made sooner than a thread is started."""


class Levels:
    """The levels of a room."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.seconds = 0.0
        """What the last level took."""
        self.of = functools.lru_cache(MOST_KEPT)(self._make)
        """The level of a seed: a row, as bytes, as it is when its episode begins."""
        self._maker = threading.local()
        self._is_working = False
        self._begin_anew()
        _all.add(self)

    @property
    def are_slow(self) -> bool:
        """Whether it pays to make them ahead."""
        return self.seconds > SLOW_SECONDS

    def prepare(self, task_seeds: Iterable[int]) -> None:
        """Make the levels of these seeds ahead, in a thread."""
        with self._lock:
            self._waiting.extend(task_seeds)
            if self._is_working or not self._waiting:
                return
            self._is_working = True
        try:
            threading.Thread(target=self._work, name="shoal-levels", daemon=True).start()
        except RuntimeError:  # the system has no thread left: levels are made when they are needed
            self._is_working = False

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_working = False
                    return
                task_seed = self._waiting.popleft()
            try:
                self.of(task_seed)
            except Exception:
                pass  # it is raised again for whoever asks for this level

    def _make(self, task_seed: int) -> bytes:
        rows: Rows | None = getattr(self._maker, "rows", None)
        is_first = rows is None
        if rows is None:  # each thread has its own
            config = SokobanConfig(self.room[:2], num_boxes=self.room.num_boxes, search_depth=self.room.search_depth)
            rows = self._maker.rows = rows_of(Sokoban(config))
        rows.seed(0, task_seed)
        rows.state.episode[0] = -1
        start = time.perf_counter()
        rows.begin(rows.everybody)
        if not is_first:  # which may have to wait for the compiler
            self.seconds = time.perf_counter() - start
        level: bytes = rows.state.tobytes()
        return level

    def _begin_anew(self) -> None:
        """Let nothing be under way, as a forked process must: threads, and what they held, are not in it."""
        self._lock = threading.Lock()
        self._waiting: deque[int] = deque(maxlen=MOST_WAITING)
        self._is_working = False


@functools.lru_cache(maxsize=16)
def levels_of(room: Room) -> Levels:
    """The levels of a room, for all who ask."""
    return Levels(room)


def rows_of(world: Sokoban, max_steps: int | None = None) -> Rows:
    """A single row, with places for its results."""
    rows, shape = Rows(world, 1, max_steps), world.observation_space.shape
    rows.attach(np.zeros((1, *(shape or ())), np.uint8), np.zeros(1), *np.zeros((2, 1), np.bool_))
    return rows


_all: weakref.WeakSet[Levels] = weakref.WeakSet()


def _begin_all_anew() -> None:
    for levels in _all:
        levels._begin_anew()


os.register_at_fork(after_in_child=_begin_all_anew)
