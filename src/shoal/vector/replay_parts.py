"""Parts of replays: of several environments some, and of one environment what another is to do in its place.

Environments that were stepped together are brought back together, which is many times quicker than one after the other. So
what brings them back is told for all of them at once, and taken apart only where some of them go another way.
"""

from __future__ import annotations

from collections.abc import Collection

from shoal.vector.layout import Rows, as_index
from shoal.vector.loose import singly
from shoal.vector.messages import Command, Op, Redo, Replay, Steps
from shoal.vector.rounds import part_of
from shoal.vector.starts import Past, Start


def past_for(past: Past, row: int) -> Past:
    """What brings the environment ``row`` to where another one, or itself elsewhere, has been."""
    if row == past.row:
        return past
    return past._replace(replay=_renumbered(past.replay, past.row, row))


def narrowed(replay: Replay, rows: Collection[int]) -> Replay:
    """The part of a replay that concerns these environments."""
    chosen = set(rows)
    redo = [
        one if len(places) == len(one.rows) else _at_places(one, places)
        for one in replay.redo
        if (places := [place for place, row in enumerate(one.rows) if row in chosen])
    ]
    starts = {row: start for row, start in replay.starts.items() if row in chosen}
    return replay._replace(redo=redo, starts=starts)


def _at_places(one: Redo, places: list[int]) -> Redo:
    """What the environments in these places have to do again."""
    rows: Rows = [one.rows[place] for place in places]
    if rows[-1] - rows[0] + 1 == len(rows) and isinstance(one.rows, range):
        rows = range(rows[0], rows[-1] + 1)  # which is quicker to work with
    chosen = as_index(range(places[0], places[-1] + 1) if isinstance(rows, range) else places)
    if one.op is Op.STEP and not one.payload.loose:
        payload = Steps(rows, [], one.payload.wide)
    else:
        payload = part_of(Command(0, one.op, one.payload), rows).payload
    return Redo(
        one.op, rows, payload,
        [array[chosen] for array in one.actions],
        [one.digests[place] for place in places] if one.digests else [],
        tuple(row for row in one.begins if row in rows),
    )  # fmt: skip


def _renumbered(replay: Replay, source: int, row: int) -> Replay:
    """The part of a replay that concerns one environment, for another one."""
    replay = narrowed(replay, [source])
    redo = []
    for one in replay.redo:
        payload = one.payload
        if one.op is Op.RESET:
            payload = [reset._replace(env_index=row) for reset in payload]
        elif one.op is Op.STEP:
            payload = Steps([row], [(row, number, value) for _, number, value in singly(payload.loose)], payload.wide)
        else:
            payload = payload._replace(rows=[row])
        redo.append(one._replace(rows=[row], payload=payload, begins=(row,) if one.begins else ()))
    start = replay.starts.get(source)
    return replay._replace(redo=redo, starts={} if start is None else {row: _start_of_another(start, source, row)})


def _start_of_another(start: Start, source: int, row: int) -> Start:
    if start.past is None:
        return start
    return start._replace(past=start.past._replace(replay=_renumbered(start.past.replay, source, row)))
