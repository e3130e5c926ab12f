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
from typing import Any, NamedTuple

from shoal.vector.errors import WaitTimeout
from shoal.vector.flights import Wanted
from shoal.vector.layout import Array
from shoal.vector.session import Session

NAP_SECONDS = 0.01


class Batch(NamedTuple):
    """What ``recv`` hands over: the results of some environments, in the order of their arrival."""

    env_ids: Array
    """Which environments; row k of everything else is that of environment ``env_ids[k]``."""
    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any


async def wait_in_loop(session: Session, wanted: Wanted, timeout: float | None) -> None:
    """Until enough are back. Others run in the event loop meanwhile."""
    flights, backend = session.flights, session.pool.backend
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
