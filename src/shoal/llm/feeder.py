"""The thread that feeds workers: it hands out items, looks at the clock, and concludes each grading.

The engine tells of a late worker when there is another in its place. The verdict is not to wait for that, so the deadline of
each grading is watched here, too.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections import deque
from concurrent.futures import Future, InvalidStateError
from dataclasses import replace
from typing import Any, NamedTuple

from shoal.llm.grading_env import ERROR, GROWN, LOADED
from shoal.llm.status import Status
from shoal.llm.verdicts import GraderStats, Verdict
from shoal.vector.env_list import EnvList
from shoal.vector.errors import CannotStart, Closed, EnvError, ShoalError, StateError, WaitTimeout

logger = logging.getLogger(__name__)

NAP_SECONDS = 0.005
"""While workers are idle and others are not, it is seen so often whether there is something new to grade."""
LONGEST_WAIT_SECONDS = 0.1
RETRY_SECONDS = 0.1
ABSENCE_SECONDS = 0.5
"""If a wait takes so much longer than it should, this process was stopped, and nobody is late for that."""


class Job(NamedTuple):
    """What is to be graded."""

    item: bytes
    future: Future[Verdict]
    is_second_try: bool = False


class Running(NamedTuple):
    """What a worker is grading."""

    job: Job
    began: float
    deadline: float
    pid: int
    """Of the worker. If another has taken its place, it has died, and the engine will tell how."""


class Feeder:
    """Has items graded by grading environments that have loaded their function, one of which each worker has."""

    def __init__(self, envs: EnvList, limit: float) -> None:
        self._envs, self._limit = envs, limit
        self._changed = threading.Condition()
        """Guards the queue, what is counted, and the end."""
        self._queue: deque[Job] = deque()
        self._stats = GraderStats()
        self._end: BaseException | None = None
        """Why nothing is graded any more."""
        # Of the feeder thread alone: what each worker is doing.
        self._idle = set(range(envs.num_envs))
        self._running: dict[int, Running] = {}
        self._overdue: set[int] = set()
        """Workers whose verdict was given when their time was over, and who have not been replaced yet."""
        self._loading: set[int] = set()
        self._thread = threading.Thread(target=self._feed, name="shoal-grader", daemon=True)
        self._thread.start()

    # -- for any thread --------------------------------------------------------------------------------------------------

    def add(self, job: Job) -> None:
        """Have this graded when a worker is free."""
        with self._changed:
            self._check_open()
            self._queue.append(job)
            self._changed.notify()

    def conclude(self, future: Future[Verdict], verdict: Verdict) -> None:
        """Count a verdict, and hand it over. When something fails for the first time in its way, that is logged."""
        with self._changed:
            if verdict.is_failure and not self._stats.number(verdict.status):
                logger.warning(
                    "a grading has failed (%s); others will only be counted:\n%s", verdict.status, verdict.error
                )
            self._stats.count(verdict.status)
        future.set_result(verdict)

    @property
    def stats(self) -> GraderStats:
        """What has come of all gradings until now."""
        with self._changed:
            return replace(self._stats)

    def close(self) -> None:
        """Grade nothing any more, and end all workers."""
        self._stop(Closed("the grader was closed before this was graded"))
        self._envs.close(terminate=True)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _check_open(self) -> None:
        if isinstance(self._end, Closed):
            raise Closed("the grader was closed")
        if self._end is not None:
            raise StateError(f"the grader has stopped: {self._end}") from self._end

    def _stop(self, reason: BaseException) -> None:
        """Grade nothing any more, and tell all who wait."""
        with self._changed:
            self._end = end = self._end or reason
            waiting = [*self._queue, *(one.job for one in list(self._running.values()))]
            self._queue.clear()
            self._changed.notify_all()
        for job in waiting:
            try:
                job.future.set_exception(
                    end if isinstance(end, ShoalError) else StateError(f"grading has stopped: {end}")
                )
            except InvalidStateError:
                pass  # it was done or cancelled meanwhile

    # -- in the feeder thread --------------------------------------------------------------------------------------------

    def _feed(self) -> None:
        try:
            while self._end is None:
                with self._changed:
                    while not self._queue and not self._is_busy and self._end is None:
                        self._changed.wait()
                self._send()
                if self._is_busy:
                    self._receive()
            self._stop(self._end)
        except BaseException as error:
            if self._end is None:
                logger.error("grading has stopped: %s", error)
            self._stop(error)

    @property
    def _is_busy(self) -> bool:
        return bool(self._running or self._loading or self._overdue)

    def _send(self) -> None:
        pids = self._envs.worker_pids  # which may raise; then nothing has been taken from the queue
        jobs: list[Job] = []
        with self._changed:
            while self._queue and len(jobs) < len(self._idle):
                job = self._queue.popleft()
                if job.is_second_try or job.future.set_running_or_notify_cancel():
                    jobs.append(job)
        if not jobs:
            return
        rows = sorted(self._idle)[: len(jobs)]
        self._idle.difference_update(rows)
        now = time.monotonic()
        for row, job in zip(rows, jobs, strict=True):
            self._running[row] = Running(job, now, now + self._limit, pids[row])
        self._envs.send([job.item for job in jobs], rows)

    def _receive(self) -> None:
        began = time.monotonic()
        self._conclude_overdue(began)
        patience = NAP_SECONDS if self._idle else LONGEST_WAIT_SECONDS
        patience = max(0.0, min([patience, *(one.deadline - began for one in self._running.values())]))
        try:
            batch = self._envs.recv(timeout=patience)
        except WaitTimeout:
            self._forgive(time.monotonic() - began - patience)
            return
        except CannotStart as error:  # a worker has no replacement yet; the others go on
            logger.warning("%s", error)
            time.sleep(RETRY_SECONDS)
            return
        except EnvError as error:  # what the function returned is too large to be sent, for example
            for one in (error, *error.others):
                self._note_unsent(one)
            return
        for row, seen, info in zip(batch.env_ids.tolist(), batch.observation, batch.info, strict=True):
            if row in self._loading:
                self._note_loaded(row, seen)
            else:
                self._note_graded(row, seen, info.get("fault"))
        self._forgive(time.monotonic() - began - patience)

    def _conclude_overdue(self, now: float) -> None:
        late = [row for row, one in self._running.items() if now >= one.deadline]
        pids = self._envs.worker_pids if late else ()
        for row in late:
            one = self._running[row]
            if pids[row] != one.pid:
                # It has died in time, and how it did comes with its replacement.
                self._running[row] = one._replace(deadline=float("inf"))
                continue
            del self._running[row]
            self._overdue.add(row)
            error = f"it took longer than {self._limit:g} s, and its worker (pid {one.pid}) was ended"
            self._conclude(one.job, one.began, None, Status.TIMEOUT, f"{error}. The log says where it was")

    def _forgive(self, absence: float) -> None:
        """Nobody could be watched for so long, and perhaps nobody could work."""
        if absence > ABSENCE_SECONDS:
            for row, one in self._running.items():
                self._running[row] = one._replace(deadline=one.deadline + absence)

    def _note_loaded(self, row: int, seen: Any) -> None:
        if seen[0] != LOADED:
            raise StateError(f"the function cannot be loaded in a new worker any more:\n{seen[1]}")
        self._loading.discard(row)
        self._idle.add(row)

    def _note_graded(self, row: int, seen: Any, fault: Any) -> None:
        if fault is None:
            self._idle.add(row)
        else:
            self._loading.add(row)
            self._envs.send_reset([row])
        if row in self._overdue:
            self._overdue.discard(row)
            return
        job, began, _, _ = self._running.pop(row)
        if fault is None:
            self._conclude(job, began, *_read(*seen))
        elif fault["exit_code"] == GROWN and not job.is_second_try:
            with self._changed:
                self._stats.begun_again += 1
                self._queue.appendleft(job._replace(is_second_try=True))
        else:
            status = Status.TIMEOUT if fault["kind"] == "hung" else Status.WORKER_DIED
            self._conclude(job, began, None, status, fault["message"])

    def _note_unsent(self, error: EnvError) -> None:
        row = error.env_index
        if row in self._loading:
            raise error
        self._loading.add(row)
        self._envs.send_reset([row])
        if row in self._overdue:
            self._overdue.discard(row)
            return
        one = self._running.pop(row)
        self._conclude(one.job, one.began, None, Status.ENV_ERROR, str(error))

    def _conclude(self, job: Job, began: float, value: Any, status: Status, error: str = "") -> None:
        self.conclude(job.future, Verdict(value, status, error, time.monotonic() - began))


def _read(kind: str, content: Any) -> tuple[Any, Status, str]:
    """The value that a worker has sent, or why there is none."""
    if kind == ERROR:
        return None, Status.ENV_ERROR, content
    try:
        return pickle.loads(content), Status.OK, ""
    except BaseException as error:
        return None, Status.ENV_ERROR, f"what the function returned cannot be read: {type(error).__name__}: {error}"
