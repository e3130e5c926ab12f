"""Many hosted worlds, in worker processes or here, and moved from one to the other without losing where they are.

::

    begin(orders) ─┐                        ┌─ worker 0: worlds 0, 1, 2, …     each world stays where it is
    act(actions) ──┴─ Worlds ── EnvList ────┼─ worker 1: …
                                            └─ here: worlds of in_process

Everything that can go wrong with one world is one world's :class:`Shown`, with a status; the others go on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shoal.llm.hosted import ERROR, EXECUTED, LOOKUP, Begin, Hosting, Make
from shoal.llm.status import Status
from shoal.vector.caller import warn_caller
from shoal.vector.cpus import usable_cpus
from shoal.vector.env_list import EnvList
from shoal.vector.errors import BackendUnavailable, CannotStart, EnvError, ShoalError, StateError, WorkerError

MOST_WORKERS = 8
STEP_SECONDS = 30.0


class Shown(NamedTuple):
    """What came of an order."""

    state: Any
    """What the world shows: a text, or one or more images."""
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    executed: int
    """How many actions were carried out."""
    lookup: Any = LOOKUP
    """What actions are called now, where that has changed."""
    status: Status = Status.OK
    error: str = ""
    """Why it failed."""

    @property
    def has_ended(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated


@dataclass(frozen=True)
class Placing:
    """How worlds are run in worker processes."""

    num_workers: int | None = None
    """By default one for each processor, and at most eight."""
    step_timeout: float | None = STEP_SECONDS
    """Seconds that each world has for an order."""
    in_process: Sequence[int] = ()
    """Worlds that stay here in any case."""
    backend: str = "shm"
    on_fault: str = "truncate"
    """What is done about a world that cannot be brought back; by default it alone has ended."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """Further keywords of :class:`EnvList`."""


class Worlds:
    """Runs worlds. They are started when the first of them is asked for something."""

    def __init__(self, makers: Sequence[Make], placing: Placing, *, is_parallel: bool) -> None:
        self._hostings: list[Any] = [Hosting(make) for make in makers]
        self._placing = placing
        self.is_parallel = is_parallel
        """Whether they are to be in worker processes. May be changed at any time."""
        self._envs: EnvList | None = None
        self._runs_parallel = False
        """Whether they are, or would be if there were any workers."""
        self._waits = False
        """Whether each world has its own time, and is waited for."""
        self.fallback = ""
        """Why they run here although they were meant to be in worker processes."""
        self._unanswered: dict[int, Any] | None = None
        """Orders that were given, and whose results were not taken in because something was raised meanwhile."""
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._hostings)

    # -- orders ----------------------------------------------------------------------------------------------------------

    def begin(self, orders: Mapping[int, Begin]) -> dict[int, Shown]:
        """Let these worlds begin an episode each."""
        self._forget_unanswered()
        rows = list(orders)
        self._placed().reset(env_ids=None if len(rows) == len(self) else rows)
        return self._carry_out(dict(orders))

    def act(self, actions: Mapping[int, Sequence[Any]]) -> dict[int, Shown]:
        """Let these worlds carry out a turn each, of at least one action.

        If it raises before there are results (Ctrl-C, or no worker can be started now), it may be called again with the same.
        """
        return self._carry_out(dict(actions)) if actions else {}

    def _carry_out(self, orders: dict[int, Any]) -> dict[int, Shown]:
        envs, rows = self._placed(), list(orders)
        if not self._waits:
            everybody = None if len(rows) == len(self) and rows == list(range(len(rows))) else rows
            return dict(zip(rows, map(shown_of, *envs.step(list(orders.values()), everybody)), strict=True))
        if self._unanswered is None:
            envs.send(list(orders.values()), rows)
            self._unanswered = orders
        elif self._unanswered != orders:
            raise StateError(
                f"worlds {list(self._unanswered)} were interrupted in another turn: take that turn again, or call reset()"
            )
        results: dict[int, Shown] = {}
        left = rows
        while left:
            try:
                batch = envs.recv(env_ids=left)
            except EnvError as error:  # what a world gave cannot be sent, for example
                for one in (error, *error.others):
                    results[one.env_index] = failed(Status.ENV_ERROR, str(one))
                left = [row for row in left if row not in results]
            except WorkerError as error:
                if not isinstance(error, CannotStart):
                    self._give_up(envs)
                raise
            else:
                results |= zip(left, map(shown_of, *batch[1:]), strict=True)
                break
        self._unanswered = None
        return {row: results[row] for row in rows}

    def _forget_unanswered(self) -> None:
        if self._unanswered is None:
            return
        assert self._envs is not None
        try:
            if self._envs.num_under_way:
                self._envs.recv(self._envs.num_under_way)
        except CannotStart:
            raise  # later, perhaps: whatever has ended a worker must not begin anew in this process
        except ShoalError:
            self._give_up(self._envs)
        self._unanswered = None

    def _give_up(self, envs: EnvList) -> None:
        """What runs them cannot go on. They will be started again, and then have to begin."""
        self._envs = self._unanswered = None
        envs.close(terminate=True)

    # -- where they are --------------------------------------------------------------------------------------------------

    def open(self) -> EnvList:
        """Start them, if they have not been; returns what runs them."""
        return self._placed()

    def _placed(self) -> EnvList:
        if self._is_closed:
            raise StateError("the worlds were closed")
        if self._envs is None:
            self._envs = self._started(is_parallel=self.is_parallel)
            self._runs_parallel = self.is_parallel
        elif self._runs_parallel != self.is_parallel:
            if self._unanswered is not None:
                raise StateError(
                    "the worlds cannot move in the middle of a turn that was interrupted: take it again first"
                )
            self._envs = self._moved(self._envs)
            self._runs_parallel = self.is_parallel
        return self._envs

    def _started(self, *, is_parallel: bool) -> EnvList:
        placing, count = self._placing, len(self)
        if not is_parallel or len(set(placing.in_process)) == count:
            self._waits = False
            return EnvList(self._hostings, backend="serial")
        try:
            envs = EnvList(
                self._hostings,
                backend=placing.backend,
                num_workers=placing.num_workers or min(MOST_WORKERS, usable_cpus()),
                step_timeout=placing.step_timeout,
                in_process=placing.in_process,
                on_fault=placing.on_fault,
                **placing.others,
            )
        except (BackendUnavailable, CannotStart) as error:
            self.fallback = str(error)
            warn_caller(f"all worlds run in this process, one after the other: {error}")
            self._waits = False
            return EnvList(self._hostings, backend="serial")
        self._waits = True
        # That may take longer than an order, where it has never been compiled.
        envs.get_attr("warm_up", _first_of_each_kind(self._hostings, envs.worker_envs))
        return envs

    def _moved(self, old: EnvList) -> EnvList:
        state, waited = old.state_dict(), self._waits
        new = self._started(is_parallel=self.is_parallel)
        try:
            new.load_state_dict(state)
        except BaseException:
            new.close(1.0)
            self._waits = waited
            raise
        old.close()
        return new

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The worker processes, without this one."""
        return tuple(pid for pid in self._placed().worker_pids if pid != os.getpid())

    def ask(self, function: Callable[[Any], Any]) -> list[Any]:
        """What a function makes of each world, where that is; ``None`` for one that could not be made."""
        return list(self._placed().call("ask", function))

    def render(self, mode: str | None = None) -> list[Any]:
        """What each world renders; ``None`` for one that could not be made."""
        envs = self._placed()
        return list(envs.render() if mode is None else envs.call("render", mode))

    def close(self) -> None:
        """Close them all."""
        self._is_closed = True
        envs, self._envs = self._envs, None
        if envs is not None:
            envs.close(terminate=self._unanswered is not None)


def _first_of_each_kind(hostings: Sequence[Hosting], shares: Sequence[range]) -> list[int]:
    """For each worker the first world of each kind."""
    return [row for share in shares for row in {repr(hostings[row]): row for row in reversed(share)}.values()]


def shown_of(state: Any, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> Shown:
    """What the results of a hosted world's step say."""
    executed = info.pop(EXECUTED, None)
    if executed is None:
        fault = info["fault"]
        return failed(Status.TIMEOUT if fault["kind"] == "hung" else Status.WORKER_DIED, fault["message"])
    if ERROR in info:
        return Shown("", reward, False, True, {}, executed, status=Status.ENV_ERROR, error=info[ERROR])
    status = Status.TRUNCATED if truncated and not terminated else Status.OK
    return Shown(state, reward, terminated, truncated, info, executed, info.pop(LOOKUP, LOOKUP), status)


def failed(status: Status, error: str) -> Shown:
    """What came of an order to a world that has nothing to show."""
    return Shown("", 0.0, False, True, {}, 0, status=status, error=error)
