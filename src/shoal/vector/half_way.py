"""The short way through a step of half of the environments, in worker processes.

With two halves, the caller shares its processor with a worker that has the other half to step, and whatever it does takes time
from that. So nothing is put together here that was not before, and nobody looks at environments one by one, as long as nothing
happens that needs it. What does happen goes the ordinary way from there: infos, an exception, a death, a step that takes long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from shoal.vector.actions import ActionWriter
from shoal.vector.flights import Flights
from shoal.vector.halves import Half
from shoal.vector.infos import Columns, EnvInfos
from shoal.vector.layout import Array, Rows
from shoal.vector.messages import NOTHING
from shoal.vector.pool import Pool


class HalfWay(NamedTuple):
    """Orders steps of one half, and takes in what came of them. Closures, as in ``short_way.py``."""

    order: Callable[[Any], bool]
    """Lets them take a step; returns whether there is a short way now. Otherwise nobody was asked for anything."""
    finish: Callable[[], tuple[Any, ...] | None]
    """What came of it; ``None`` if that is to be had on the ordinary way, as all that has happened until now."""


def half_way_of(
    half: Half,
    pool: Pool,
    flights: Flights,
    actions: ActionWriter,
    results: Sequence[Array] | None,
    merge_infos: Callable[[EnvInfos, int], dict[str, Any]],
) -> HalfWay:
    """The short way of one half. ``results``: those of all environments, if the caller gets copies of these, and no more."""
    backend, access, write = pool.backend, pool.access, actions.writer_for(half.rows, half.index)
    copies: list[Callable[[], Array]] | None = None
    if results is not None:
        assert isinstance(half.index, slice)  # what it selects stays where results are written
        copies = [array[half.index].copy for array in results]
    is_first, place_of = True, {row: place for place, row in enumerate(half.rows)}

    def infos() -> dict[str, Any]:
        """What all of them tell, in the order of their places in the half."""
        columns = [entry for entry in half.outcome.infos if isinstance(entry, Columns)]
        are_all = len(columns) == 1 and columns[0].rows == half.rows
        places: list[Rows] = [
            range(len(half.rows)) if are_all else [place_of[row] for row in each.rows] for each in columns
        ]
        told: EnvInfos = [Columns(where, each.values) for where, each in zip(places, columns, strict=True)]
        told += [(place_of[row], info) for row, info in half.outcome.infos if isinstance(row, int)]
        return merge_infos(told, len(half.rows))

    def order(given: Any) -> bool:
        with access:
            if backend.in_process or not flights.could_send(half) or not backend.steps_at_once or not write(given):
                return False
            pool.order_half(half)
            flights.send_half(half)
        return True

    def finish() -> tuple[Any, ...] | None:
        nonlocal is_first
        if not flights.has_sent(half):
            return None
        with access:
            if not half.has_landed:
                outcome = backend.finish_half(half)
                if outcome is None:
                    return None
                half.outcome, half.has_landed = outcome, True
            if copies is None or is_first or half.outcome.loose or half.outcome.failures:
                is_first = False  # once, the ordinary way notes down that these environments have been seen
                return None
            observations, rewards, terminated, truncated = copies
            told = {} if half.outcome is NOTHING else infos()
            results = observations(), rewards(), terminated(), truncated(), told
        # Not before: what the handler of a signal has raised at the end of the access leaves them to be waited for.
        flights.hand_over_half(half)
        return results

    return HalfWay(order, finish)
