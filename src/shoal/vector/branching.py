"""Saving where all environments are, going on from there in another process, and branching one environment into several.

All three stand on the journal: what brings back an environment whose worker has died also brings another one to where it
was. Where there is no journal (in the caller's process, where no worker can die), environments are pickled instead.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import cloudpickle

from shoal.vector.errors import ConfigurationError, StateError
from shoal.vector.messages import Op, Replay
from shoal.vector.replay_parts import past_for
from shoal.vector.session import Session
from shoal.vector.starts import Past, Start
from shoal.vector.supervisor import Supervisor, check_followed

VERSION = 1


def saved(session: Session, kind: str) -> dict[str, Any]:
    """Where all environments are, as a dictionary of plain values that can be pickled."""
    pasts = _pasts(session, "state_dict")
    return {
        "version": VERSION,
        "num_envs": session.num_envs,
        "kind": kind,
        "results": [array.copy() for array in session.arena.results],
        "loose": cloudpickle.dumps(session.observations.loose_values()),
        "is_ready": session.readiness.is_ready.tolist(),
        "history": cloudpickle.dumps(pasts),
    }


def load(session: Session, state: Mapping[str, Any], kind: str) -> None:
    """Bring all environments to where those were that were saved."""
    supervisor = _journaled(session, "load_state_dict")
    _check_fits(state, session.num_envs, kind)
    _follow(session, supervisor, pickle.loads(state["history"]))
    for target, source in zip(session.arena.results, state["results"], strict=True):
        target[:] = source
    session.observations.update(pickle.loads(state["loose"]))
    session.readiness.go_on_from(state["is_ready"])


def branch(session: Session, source: int, rows: list[int]) -> None:
    """Bring environments to where another one is now."""
    supervisor = _journaled(session, "fork")
    is_sure = supervisor is not None and not supervisor.upkeep.shortener.is_lenient
    past = supervisor.past_of(source) if supervisor is not None and is_sure else _pasts(session, "fork")[source]
    _follow(session, supervisor, dict.fromkeys(rows, past))
    for array in session.arena.results:
        array[rows] = array[source]
    loose = [(number, value) for row, number, value in session.observations.loose_values() if row == source]
    session.observations.update([(row, number, value) for row in rows for number, value in loose])


def _journaled(session: Session, name: str) -> Supervisor | None:
    """Who keeps the journal, if anybody does."""
    supervisor = session.supervisor
    if supervisor is None or supervisor.journal is None:
        return None
    if reason := supervisor.upkeep.why_not_restorable():
        raise StateError(f"{name}() is not possible: {reason}")
    return supervisor


def _pasts(session: Session, name: str) -> dict[int, Past]:
    """How every environment got to where it is, or where that is."""
    supervisor = _journaled(session, name)
    if supervisor is None:
        pasts, problem = _captured(session)
        if problem:
            raise StateError(
                f"{name}() pickles environments for which no journal is kept, and these cannot be pickled: {problem}. "
                'What to do: make them with on_fault="restore", which keeps one.'
            )
        return pasts
    if supervisor.upkeep.shortener.is_lenient:  # nobody knows whether the resets in it are beginnings
        pasts, problem = _captured(session)
        if not problem:
            return pasts
    return supervisor.pasts()


def _captured(session: Session) -> tuple[dict[int, Past], str]:
    """Where all environments are, or why they cannot be pickled."""
    captured = dict(session.pool.perform(Op.CAPTURE, None).values)
    pasts: dict[int, Past] = {}
    for rows in session.pool.rows:
        base = captured[rows.start]
        if not isinstance(base, bytes):
            return {}, base
        pasts |= {row: Past(Replay([], {}, base), None, row, row - rows.start) for row in rows}
    return pasts, ""


def _follow(session: Session, supervisor: Supervisor | None, pasts: Mapping[int, Past]) -> None:
    """Bring environments to where these have been."""
    if supervisor is not None:
        supervisor.follow(pasts)
        return
    starts = {row: Start(0, past=past_for(past, row)) for row, past in pasts.items()}
    replays = {
        worker: Replay([], {row: starts[row] for row in rows if row in starts})
        for worker, rows in enumerate(session.pool.rows)
    }
    check_followed(session.pool.perform(Op.RESTORE, replays))


def _check_fits(state: Mapping[str, Any], num_envs: int, kind: str) -> None:
    if not isinstance(state, Mapping) or "history" not in state:
        raise ConfigurationError(f"this is not what state_dict() returns: {type(state).__name__}")
    if state["version"] != VERSION:
        raise ConfigurationError(
            f"it was saved in version {state['version']} of the format, and this Shoal reads version {VERSION}"
        )
    if state["num_envs"] != num_envs:
        raise ConfigurationError(f"it has {state['num_envs']} environments, and there are {num_envs} here")
    if state["kind"] != kind:
        raise ConfigurationError(f"it was saved from {state['kind']}, and here are {kind}")
