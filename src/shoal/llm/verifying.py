"""Whether a trajectory can be played again, and where it first becomes another."""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.llm.hosted import EXECUTED, LOOKUP, Begin, HostedWorld
from shoal.llm.members import maker_of
from shoal.llm.records import TrajectoryRecord, plain_json
from shoal.llm.stage import as_state
from shoal.llm.status import Status
from shoal.llm.worlds import shown_of


class Verification(NamedTuple):
    """What came of playing a trajectory again."""

    is_same: bool
    difference: str = ""
    """The first one."""

    def __bool__(self) -> bool:
        return self.is_same


def verify(record: TrajectoryRecord) -> Verification:
    """Make the trajectory's world anew, begin it with the same seeds, do the same in it, and compare all that it shows.

    Nothing is compared beyond a turn in which the world failed: what kills a process is not repeated here.
    """
    world = HostedWorld(maker_of(record.env_type, record.config, "config"))
    try:
        difference = _first_difference(record, world)
    finally:
        world.close()
    return Verification(difference is None, difference or "")


def _first_difference(record: TrajectoryRecord, world: HostedWorld) -> str | None:
    shown = shown_of(*world.step(Begin(record.seed, record.mode, record.options)))
    if shown.status.is_failure:
        return None if record.has_failed and not record.turns else f"the world does not begin: {last_line(shown.error)}"
    state = as_state(shown.state)
    for number, turn in enumerate(record.turns):
        if state != turn.state:
            where = "the episode begins" if number == 0 else f"turn {number} begins"
            return _said(where, "state", state, turn.state)
        if turn.status.is_failure:
            return None
        if not turn.actions:
            continue
        shown = shown_of(*world.step(turn.actions))
        if shown.status.is_failure:
            return f"turn {number}: the world raises: {last_line(shown.error)}"
        if shown.reward != turn.reward:
            return _said(f"turn {number}", "reward", shown.reward, turn.reward)
        if (found := _of_infos(plain_json(shown.info), turn.info)) is not None:
            return _said(f"turn {number}", *found)
        state = as_state(shown.state)
    if record.status not in (Status.OK, Status.TRUNCATED, Status.CONTEXT_OVERFLOW):
        return None
    if state != record.final_state:
        return _said("the end", "state", state, record.final_state)
    if record.turns and (shown.terminated, shown.truncated) != (record.terminated, record.truncated):
        return _said("the end", "(terminated, truncated)", shown[2:4], (record.terminated, record.truncated))
    return None


def _of_infos(now: dict[str, Any], then: dict[str, Any]) -> tuple[str, Any, Any] | None:
    for name in sorted({*now, *then} - {EXECUTED, LOOKUP}):
        if now.get(name) != then.get(name):
            return f"info[{name!r}]", now.get(name), then.get(name)
    return None


def _said(where: str, what: str, now: Any, then: Any) -> str:
    return f"{where}: {what} is {now!r:.200}, and was {then!r:.200}"


def last_line(error: str) -> str:
    """What a traceback comes to."""
    return error.strip().rpartition("\n")[2]
