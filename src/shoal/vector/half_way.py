"""The short way through a step of half of the environments, in worker processes.

With two halves, the caller shares its processor with a worker that has the other half to step, and whatever it does takes time
from that. So nothing is put together here that was not before, and nobody looks at environments one by one, as long as nothing
happens that needs it. What does happen goes the ordinary way from there: infos, an exception, a death, a step that takes long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shoal.vector.actions import ActionWriter
from shoal.vector.flights import Flights
from shoal.vector.halves import Half
from shoal.vector.layout import Array
from shoal.vector.pool import Pool


class HalfWay:
    """Orders steps of one half, and takes in what came of them."""

    def __init__(
        self, half: Half, pool: Pool, flights: Flights, actions: ActionWriter, results: Sequence[Array] | None
    ) -> None:
        self._half, self._pool, self._flights, self._actions = half, pool, flights, actions
        self._interrupts = pool.interrupts
        self._copies: list[Callable[[], Array]] | None = None
        """What the caller is given, if that is copies of what is in the arena, and no more."""
        if results is not None:
            assert isinstance(half.index, slice)  # what it selects stays where results are written
            self._copies = [array[half.index].copy for array in results]
        self._is_first = True

    def order(self, actions: Any) -> bool:
        """Let them take a step; returns whether there is a short way now. Otherwise nobody was asked for anything."""
        if not self._flights.could_send(self._half) or not self._pool.backend.steps_at_once:
            return False
        loose, wide = self._actions.write_some(actions, self._half.rows, self._half.index)
        if loose or wide:
            return False
        with self._interrupts:
            self._pool.order_half(self._half)
            self._flights.send_half(self._half)
        return True

    def finish(self) -> tuple[Any, ...] | None:
        """What came of it; ``None`` if that is to be had on the ordinary way, as all that has happened until now."""
        half, flights = self._half, self._flights
        if not flights.has_sent(half):
            return None
        with self._interrupts:
            if not half.has_landed:
                if not self._pool.finish_half(half):
                    return None
                half.has_landed = True
            self._interrupts.heed()
            if self._copies is None or self._is_first:
                self._is_first = False  # once, the ordinary way notes down that these environments have been seen
                return None
            flights.hand_over_half(half)
            observations, rewards, terminated, truncated = self._copies
            return observations(), rewards(), terminated(), truncated(), {}
