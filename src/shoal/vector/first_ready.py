"""First-ready: nobody waits for the slowest.

::

    envs.send(actions, env_ids)          these step; returns at once
    envs.send_reset(env_ids, seed=…)     these begin new episodes; returns at once
    batch = envs.recv(min_envs=16)       whoever is back first

Every environment is by itself: one that is slow delays neither the others nor its neighbours in the same worker that are
already done. What an environment does is the same as in lockstep; only who is served first depends on the machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal.vector.arguments import seconds_to_wait
from shoal.vector.errors import AlreadyPending, WaitTimeout
from shoal.vector.flights import Recording, Wanted
from shoal.vector.layout import Array
from shoal.vector.loose import LooseValues, shared_out
from shoal.vector.messages import Op, Outcome, Pace, Steps
from shoal.vector.tasked import Tasked
from shoal.vector.tasks import Options, Seeds, rows_of

NAP_SECONDS = 0.01


class Batch(NamedTuple):
    """What :meth:`FirstReady.recv` hands over: the results of some environments, in the order of their arrival."""

    env_ids: Array
    """Which environments; row k of everything else is that of environment ``env_ids[k]``."""
    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any


class FirstReady(Tasked):
    """Sending environments off and receiving whoever is back."""

    _is_receiving: bool = False
    _has_sent: bool = False
    """Whether environments have ever been sent off, so that some may be under way."""

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Let these environments, or all of them, take a step each. Returns at once.

        Args:
            actions: one for each environment in ``env_ids``, arranged as for ``step``. A batch that does not fit is refused
                whole, before anything is sent.
            env_ids: indices, or a mask. None of them may have been sent and not received.
        """
        self._check_not_pending("send")
        self._decide_before_flight()
        self._send(actions, rows_of(env_ids, self.num_envs), Pace.ALONE)

    def _send(self, actions: Any, rows: list[int], pace: Pace) -> None:
        self._flights.check_departure(rows)
        self._check_ready(rows)
        loose, wide = self._write_actions(actions, rows)
        payloads = self._steps(rows, loose, wide, pace)
        with self._access:
            self._has_sent = True
            self._pool.send(Op.STEP_EACH, payloads)
            self._flights.depart(rows)

    def _steps(
        self, rows: list[int], loose: LooseValues, wide: tuple[int, ...], pace: Pace = Pace.ALONE
    ) -> dict[int, Steps]:
        """For each worker the steps of its environments."""
        shares = self._pool.shares(rows)
        own = shared_out(loose, shares, self._pool.worker_of)
        return {worker: Steps(its, own[worker], wide, pace) for worker, its in shares.items()}

    def send_reset(
        self, env_ids: Any = None, *, seed: Seeds = None, options: Options = None, group_ids: Any = None
    ) -> None:
        """Let these environments, or all of them, begin a new episode, each with its own task. Returns at once.

        Args:
            env_ids: indices, or a mask. They may be in the middle of an episode, but not under way.
            seed: a number, to which each adds its index (or its group's), or one for each.
            options: a dictionary for all of them, or one for each.
            group_ids: whole groups, instead of ``env_ids``; seeds and options are then one for each group.
        """
        self._check_not_pending("send_reset")
        self._decide_before_flight()
        rows = self._rows_of(env_ids, group_ids)
        self._flights.check_departure(rows)
        resets = self._resets(rows, seed, options)
        with self._access:
            self._has_sent = True
            self._pool.send(Op.RESET_EACH, resets)
            self._begin_episodes(rows)
            self._flights.depart(rows, begins=True)

    def recv(
        self, min_envs: int = 1, timeout: float | None = None, max_envs: int | None = None, *, env_ids: Any = None
    ) -> Batch:
        """Wait until ``min_envs`` environments are back, and return all that are, in the order of their arrival.

        Args:
            min_envs: how many to wait for.
            timeout: seconds to wait at most; afterwards :class:`WaitTimeout` is raised. Nothing is lost: call again.
            max_envs: return no more than so many; the others stay for the next time.
            env_ids: instead of whoever is first, exactly these environments, in this order.

        If an environment raised, its exception is raised here. The others stay for the next time.
        """
        if env_ids is not None:
            return self._recv_exactly(rows_of(env_ids, self.num_envs), timeout)
        self._check_not_pending("recv")
        return self._recv(self._flights.wanted(min_envs, max_envs), timeout)

    def _recv_exactly(self, rows: list[int], timeout: float | None) -> Batch:
        self._check_not_pending("recv")
        return self._recv(self._flights.wanted_exactly(rows), timeout)

    def _recv(self, wanted: Wanted, timeout: float | None) -> Batch:
        timeout = seconds_to_wait(timeout)
        with self._access:
            self._flights.wait(wanted, timeout)
        return self._receive(wanted)

    async def arecv(self, min_envs: int = 1, timeout: float | None = None, max_envs: int | None = None) -> Batch:
        """As :meth:`recv`, for asyncio programs: others run while it waits. One at a time."""
        self._check_not_pending("arecv")
        if self._is_receiving:
            raise AlreadyPending("another `arecv` is waiting; one at a time, or its results would be divided", "recv")
        wanted, timeout = self._flights.wanted(min_envs, max_envs), seconds_to_wait(timeout)
        self._is_receiving = True
        try:
            await self._wait_in_loop(wanted, timeout)
        finally:
            self._is_receiving = False
        return self._receive(wanted)

    def is_ready(self, env_ids: Any = None) -> Array:
        """Which of these environments, or of all, are back and wait for :meth:`recv`. Does not wait."""
        self._check_not_pending("is_ready")
        rows = rows_of(env_ids, self.num_envs)
        self._flights.look()
        return np.array([self._flights.has_arrived(row) for row in rows], dtype=np.bool_)

    @property
    def num_under_way(self) -> int:
        """How many environments have been sent and not received."""
        return self._flights.num_under_way

    def record_arrivals(self) -> Recording:
        """Write down who is handed over by every ``recv`` from now on, into the list that is returned.

        It is a list of lists of numbers, which JSON can hold. :meth:`replay_arrivals` plays it back.
        """
        return self._flights.record()

    def replay_arrivals(self, recording: Sequence[Sequence[int]]) -> None:
        """Hand over exactly who was handed over when ``recording`` was made, in the same order; afterwards as usual.

        The size of batches comes from the recording too. So a program that does the same as the recorded one gets
        the same results, however fast its environments are today.
        """
        self._check_not_pending("replay_arrivals")
        self._flights.replay(recording)

    async def _wait_in_loop(self, wanted: Wanted, timeout: float | None) -> None:
        flights, backend = self._flights, self._pool.backend
        end = None if timeout is None else time.monotonic() + timeout
        await asyncio.sleep(0)  # others get their turn even if nothing has to be waited for
        with backend.doorbell() as descriptor:
            flights.look()
            while not flights.is_enough(wanted):
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise WaitTimeout(flights.why_timed_out(wanted, timeout))
                if descriptor is None:
                    await asyncio.sleep(0 if backend.name == "serial" else 0.001)
                else:
                    await _readable(descriptor, NAP_SECONDS if left is None else min(left, NAP_SECONDS))
                flights.look()

    def _receive(self, wanted: Wanted) -> Batch:
        outcomes: dict[int, Outcome] | None = None
        try:
            with self._access:
                failed = self._flights.failed(wanted)
                if failed is not None:
                    self._give_up([failure.env_index for failure in failed.failures])
                    self._raise_failures(failed)
                chosen = self._flights.chosen(wanted)
                batch = self._batch(chosen)
                self._note_received(batch, has_begun=self._flights.have_begun(chosen))
                self._flights.hand_over(chosen)
                outcomes = chosen
        except BaseException:
            if outcomes is not None:  # raised by the handler of a signal: they are still to be received
                self._flights.take_back(outcomes)
            raise
        return batch

    # -- what a face adds ----------------------------------------------------------------------------------------

    def _check_ready(self, rows: Sequence[int]) -> None:
        """Refuse to step environments that have to be reset first."""
        raise NotImplementedError

    def _begin_episodes(self, rows: Sequence[int]) -> None:
        """These may be stepped from now on."""
        raise NotImplementedError

    def _give_up(self, rows: Sequence[int]) -> None:
        """These have raised, and must be reset before they are stepped."""
        raise NotImplementedError

    def _decide_before_flight(self) -> None:
        """Environments are about to be sent off; now is the time to decide where they run, if that is open."""

    def _note_received(self, batch: Batch, *, has_begun: bool) -> None:
        """These are handed over, after a step, or some of them after a reset."""

    def _write_actions(self, actions: Any, rows: list[int]) -> tuple[LooseValues, tuple[int, ...]]:
        """Check the actions and write them where the runners find them."""
        raise NotImplementedError

    def _batch(self, outcomes: dict[int, Outcome]) -> Batch:
        """The results of these environments."""
        raise NotImplementedError


async def _readable(descriptor: int, seconds: float) -> None:
    """Until something can be read from the descriptor, or for so many seconds."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, event.set)
    except NotImplementedError:  # an event loop that cannot watch descriptors
        await asyncio.sleep(0.001)
        return
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        pass
    finally:
        loop.remove_reader(descriptor)
