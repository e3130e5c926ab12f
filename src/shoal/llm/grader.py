"""Rewards that cannot hang a training: any function, graded by workers that can be killed.

::

    any thread ── submit(item) ──▶ Feeder ── first-ready ──▶ EnvList ──▶ worker: function(item)
    any thread ◀── future: Verdict ── Feeder ◀── value, error or fault ◀──┘

Every worker grades one item at a time, and has a deadline for it. One that is late or dies is replaced, and what it was grading
has failed, visibly. The others do not wait for it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from shoal.llm.feeder import Feeder, Job
from shoal.llm.grading_env import ERROR, Grading
from shoal.llm.status import Status
from shoal.llm.verdicts import GraderStats, Verdict
from shoal.vector.arguments import check_choice, check_count, time_limit
from shoal.vector.backends.channel import MAX_PICKLED
from shoal.vector.cpus import usable_cpus
from shoal.vector.engine import memory_limit
from shoal.vector.env_list import EnvList
from shoal.vector.errors import ConfigurationError, StateError
from shoal.vector.pickling import dump_by_value, dump_known

LOAD_SECONDS = 120.0
"""For loading the function in a worker."""


class Grader:
    """Calls a function for each item, in worker processes, with a deadline.

    Args:
        function: takes an item and returns its reward, or anything else.
        limit: seconds that one grading may take.
        max_memory: bytes, or a text such as ``"2 GB"``, that a worker may take beside what it has when it is new.
        num_workers: worker processes, each of which grades one item at a time; by default one for each processor.
        backend: ``"shm"`` or ``"pipes"``.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        limit: float = 10.0,
        max_memory: int | str | None = None,
        num_workers: int | None = None,
        backend: str = "shm",
    ) -> None:
        if not callable(function):
            raise ConfigurationError(f"a Grader needs a function of one item, got {function!r}")
        if time_limit("limit", limit) is None:
            raise ConfigurationError("limit must be a positive number of seconds, got None")
        check_choice("backend", backend, ("shm", "pipes"))
        if num_workers is not None:
            check_count("num_workers", num_workers)
        self.limit = float(limit)
        self.num_workers = num_workers or usable_cpus()
        most = None if max_memory is None else memory_limit("max_memory", max_memory)
        grading = Grading(_sendable(function), most)
        self._envs = EnvList(
            [grading] * self.num_workers,  # type: ignore[list-item]  # as little of an environment as is needed
            backend=backend,
            step_timeout=self.limit,
            timeouts={"reset": LOAD_SECONDS},
            replayable=False,
            on_fault="truncate",
            pin_workers=False,
        )
        self._owner = os.getpid()
        try:
            for kind, told in self._envs.reset()[0]:
                if kind == ERROR:
                    raise ConfigurationError(f"the function cannot be loaded in a worker:\n{told}")
        except BaseException:
            self._envs.close(1.0)
            raise
        self._feeder = Feeder(self._envs, self.limit)

    def __call__(self, items: Iterable[Any]) -> list[Verdict]:
        """Grade all of these; verdicts are in their order. If this is interrupted, what has not begun is not graded."""
        futures = [self.submit(item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def grade(self, item: Any) -> Verdict:
        """Grade one item."""
        return self.submit(item).result()

    def submit(self, item: Any) -> Future[Verdict]:
        """Have an item graded; returns at once. What it comes to is the future's result, failures too."""
        if os.getpid() != self._owner:
            raise StateError("this grader belongs to the process that made it: make another one in this process")
        future: Future[Verdict] = Future()
        try:
            data = dump_known(item)
            if len(data) > MAX_PICKLED:
                raise ValueError(f"it has {len(data):,} bytes, and may have {MAX_PICKLED:,}")
        except Exception as error:
            why = f"the item cannot be sent to a worker: {type(error).__name__}: {error}"
            self._feeder.conclude(future, Verdict(None, Status.ENV_ERROR, why, 0.0))
        else:
            self._feeder.add(Job(data, future))
        return future

    @property
    def stats(self) -> GraderStats:
        """What has come of all gradings until now."""
        return self._feeder.stats

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The worker processes."""
        return self._envs.worker_pids

    def close(self) -> None:
        """End all workers now. Whoever still waits for a verdict gets :class:`shoal.Closed`."""
        if os.getpid() == self._owner:
            self._feeder.close()

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _sendable(function: Callable[[Any], Any]) -> bytes:
    try:
        data = dump_by_value(function)
        pickle.loads(data)
    except Exception as error:
        raise ConfigurationError(
            f"the function cannot be sent to a worker: {type(error).__name__}: {error}. What to do: make it a function that "
            "needs nothing but what can be pickled, and let it open files and connections itself"
        ) from error
    return data
