"""What is possible in Python at all: a caller, a process for each core, a shared page, and nothing else.

No checks, no messages, no errors, no infos, no restoring, one kind of observation. The caller still does what it cannot do
without: it hands over actions, waits for everybody (or for half of them), and copies the results. What these reach is less
than the ideal, whose loops never talk to anybody, and what a library reaches can hardly be more.

    bare-lockstep   all environments step, then the caller takes the results
    bare-halves     the caller takes one half's results and sends it off again while the other half steps
    bare-threads    as bare-lockstep, with a thread for each environment, for steps that wait
"""

from __future__ import annotations

import itertools
import mmap
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.throughput.machine import usable_cores
from benchmarks.throughput.rigs.base import HalvesRig, LockstepRig
from benchmarks.throughput.workload import EnvFn, Workload

_LINE = 16
"""Words between two places that different processes write to."""
_PAGE = 4096
Pair = tuple[int, Any]
"""A row, and its environment."""


class _Crew:
    """Processes that step their share of the environments in parts, each part whenever its number changes."""

    def __init__(self, workload: Workload, num_parts: int, *, threads: bool = False) -> None:
        self.num_envs, self.num_parts = workload.num_envs, num_parts
        self.num_workers = min(usable_cores(), self.num_envs)
        size = workload.make_env(0).observation_space.shape
        assert size is not None, "only one kind of observation"
        self._memory = mmap.mmap(-1, 16 * _PAGE + self.num_envs * (8 + 8 + 2 + 4 * int(np.prod(size))))
        self._words = memoryview(self._memory).cast("B")[: 16 * _PAGE].cast("q")
        self._begin = 16 * _PAGE
        self.actions = self._array(np.int64, ())
        self.rewards = self._array(np.float64, ())
        self.observations = self._array(np.float32, size)
        self.ended, self.cut_off = self._array(np.bool_, ()), self._array(np.bool_, ())
        self._number, self._threads = 0, threads
        self._pids = [self._fork(worker, workload.env_fns()) for worker in range(self.num_workers)]

    def _array(self, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        count = self.num_envs * int(np.prod(shape))
        array = np.frombuffer(self._memory, dtype, count, self._begin).reshape(self.num_envs, *shape)
        self._begin += array.nbytes
        return array

    def rows(self, part: int) -> NDArray[np.int64]:
        return np.arange(part, self.num_envs, self.num_parts)

    def order(self, part: int) -> None:
        """Let this part step."""
        self._number += 1
        for worker in range(self.num_workers):
            self._words[(2 * worker) * _LINE + part] = self._number

    def wait(self, part: int) -> None:
        """Until this part has stepped."""
        words = self._words
        for worker in range(self.num_workers):
            place = 2 * worker * _LINE + part
            while words[place + _LINE] != words[place]:
                os.sched_yield()

    def close(self) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _fork(self, worker: int, env_fns: list[EnvFn]) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[worker]})
            share = range(self.num_envs * worker // self.num_workers, self.num_envs * (worker + 1) // self.num_workers)
            pairs = [(row, env_fns[row]()) for row in share]
            for _, env in pairs:
                env.reset()
            self._work(
                worker, [[pair for pair in pairs if pair[0] in self.rows(part)] for part in range(self.num_parts)]
            )
        finally:
            os._exit(1)

    def _work(self, worker: int, parts: list[list[Pair]]) -> None:
        words, first = self._words, 2 * worker * _LINE
        step = self._on_threads(parts[0]) if self._threads else self._step
        while True:
            found = False
            for part, pairs in enumerate(parts):
                number = words[first + part]
                if number != words[first + part + _LINE]:
                    step(pairs)
                    words[first + part + _LINE] = number
                    found = True
            if not found:
                os.sched_yield()

    def _step(self, pairs: list[Pair]) -> None:
        actions = self.actions.tolist()
        for row, env in pairs:
            observation, reward, terminated, truncated, _ = env.step(actions[row])
            if terminated or truncated:
                observation, _ = env.reset()
            self.observations[row] = observation
            self.rewards[row] = reward
            self.ended[row], self.cut_off[row] = terminated, truncated

    def _on_threads(self, pairs: list[Pair]) -> Callable[[list[Pair]], None]:
        done, count = threading.Semaphore(0), itertools.count(1)
        starts = [threading.Lock() for _ in pairs]

        def work(start: Any, pair: Pair) -> None:
            while True:
                start.acquire()
                self._step([pair])
                if next(count) % len(pairs) == 0:
                    done.release()

        for start, pair in zip(starts, pairs, strict=True):
            start.acquire()
            threading.Thread(target=work, args=(start, pair), daemon=True).start()

        def step(_: list[Pair]) -> None:
            for start in starts:
                start.release()
            done.acquire()

        return step


class BareLockstepRig(LockstepRig):
    """All of them step, and all are waited for."""

    def __init__(self, threads: str = "") -> None:
        self._threads = bool(threads)

    def open(self, workload: Workload) -> None:
        self._crew = _Crew(workload, 1, threads=self._threads)

    def run(self, rounds: int) -> None:
        crew = self._crew
        for actions in self.next_actions(rounds):
            crew.actions[:] = actions
            crew.order(0)
            crew.wait(0)
            for results in (crew.observations, crew.rewards, crew.ended, crew.cut_off):
                results.copy()

    def close(self) -> None:
        self._crew.close()


class BareHalvesRig(HalvesRig):
    """One half steps while the results of the other are taken."""

    def open(self, workload: Workload) -> None:
        self._crew = _Crew(workload, 2)
        self._rows = [self._crew.rows(part) for part in range(2)]
        self._part = 0
        for part in range(2):
            self._send(part)

    def _send(self, part: int) -> None:
        rows = self._rows[part]
        self._crew.actions[rows] = self.actions[rows]
        self._crew.order(part)

    def serve(self) -> NDArray[np.int64]:
        crew, part, rows = self._crew, self._part, self._rows[self._part]
        self._part = 1 - part
        crew.wait(part)
        for results in (crew.observations, crew.rewards, crew.ended, crew.cut_off):
            results[rows]
        self._send(part)
        return rows

    def close(self) -> None:
        self._crew.close()
