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
from shoal.vector.first_ready import FirstReady
from shoal.vector.messages import Op, Replay
from shoal.vector.observations import ObservationReader
from shoal.vector.replay_parts import past_for
from shoal.vector.starts import Past, Start
from shoal.vector.supervisor import Supervisor, check_followed
from shoal.vector.tasks import rows_of

VERSION = 1


class Branching(FirstReady):
    """Environments whose state can be saved, loaded and copied."""

    _observations: ObservationReader
    _is_ready: Any

    def state_dict(self) -> dict[str, Any]:
        """Where all environments are, as a dictionary of plain values that can be pickled.

        :meth:`load_state_dict` of environments made in the same way, in this process or another, on any backend and with any
        number of workers, goes on from there. It holds pickled data: load only what you trust.
        """
        pasts = self._pasts("state_dict")
        arena = self._pool.arena
        return {
            "version": VERSION,
            "num_envs": self.num_envs,
            "kind": self._kind(),
            "results": [array.copy() for array in arena.results],
            "loose": cloudpickle.dumps(self._observations.loose_values()),
            "is_ready": self._is_ready.tolist(),
            "history": cloudpickle.dumps(pasts),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Any:
        """Go on from what :meth:`state_dict` has saved; returns the observations of then, as ``reset`` does.

        All environments are made anew and do again what those that were saved have done; where one of them comes to
        something else, :class:`ReplayDiverged` is raised.
        """
        supervisor = self._journaled("load_state_dict")
        self._check_fits(state)
        self._follow(supervisor, pickle.loads(state["history"]))
        for target, source in zip(self._pool.arena.results, state["results"], strict=True):
            target[:] = source
        self._observations.update(pickle.loads(state["loose"]))
        self._go_on_from(state["is_ready"])
        return self._all_observations()

    def fork(self, env_id: int, to_ids: Any) -> None:
        """Bring the environments ``to_ids`` to exactly where environment ``env_id`` is now.

        Each of them then goes on by itself: with the same actions they do the same, with others they branch. What
        observations, rewards and flags say of them is what they said of ``env_id``.
        """
        supervisor = self._journaled("fork")
        (source,) = rows_of([env_id], self.num_envs, "env_id")
        rows = [row for row in rows_of(to_ids, self.num_envs, "to_ids") if row != source]
        self._check_ready([source])
        past = self._pasts("fork")[source] if supervisor is None else supervisor.past_of(source)
        self._follow(supervisor, dict.fromkeys(rows, past))
        for array in self._pool.arena.results:
            array[rows] = array[source]
        loose = [(number, value) for row, number, value in self._observations.loose_values() if row == source]
        self._observations.update([(row, number, value) for row in rows for number, value in loose])
        self._begin_episodes(rows)

    def _journaled(self, name: str) -> Supervisor | None:
        """Who keeps the journal, if anybody does."""
        self._check_idle(name)
        backend = self._pool.backend
        if not isinstance(backend, Supervisor) or backend.journal is None:
            return None
        if reason := backend.upkeep.why_not_restorable():
            raise StateError(f"{name}() is not possible: {reason}")
        return backend

    def _pasts(self, name: str) -> dict[int, Past]:
        """How every environment got to where it is, or where that is."""
        supervisor = self._journaled(name)
        if supervisor is not None:
            return supervisor.pasts()
        captured = dict(self._pool.perform(Op.CAPTURE, None).values)
        pasts: dict[int, Past] = {}
        for rows in self._pool.rows:
            base = captured[rows.start]
            if not isinstance(base, bytes):
                raise StateError(
                    f"{name}() pickles environments for which no journal is kept, and these cannot be pickled: {base}. "
                    'What to do: make them with on_fault="restore", which keeps one.'
                )
            pasts |= {row: Past(Replay([], {}, base), None, row, row - rows.start) for row in rows}
        return pasts

    def _follow(self, supervisor: Supervisor | None, pasts: Mapping[int, Past]) -> None:
        """Bring environments to where these have been."""
        if supervisor is not None:
            supervisor.follow(pasts)
            return
        starts = {row: Start(0, past=past_for(past, row)) for row, past in pasts.items()}
        replays = {
            worker: Replay([], {row: starts[row] for row in rows if row in starts})
            for worker, rows in enumerate(self._pool.rows)
        }
        check_followed(self._pool.perform(Op.RESTORE, replays))

    def _check_fits(self, state: Mapping[str, Any]) -> None:
        if not isinstance(state, Mapping) or "history" not in state:
            raise ConfigurationError(f"this is not what state_dict() returns: {type(state).__name__}")
        if state["version"] != VERSION:
            raise ConfigurationError(
                f"it was saved in version {state['version']} of the format, and this Shoal reads version {VERSION}"
            )
        if state["num_envs"] != self.num_envs:
            raise ConfigurationError(f"it has {state['num_envs']} environments, and there are {self.num_envs} here")
        if state["kind"] != self._kind():
            raise ConfigurationError(f"it was saved from {state['kind']}, and here are {self._kind()}")

    # -- what a face adds ----------------------------------------------------------------------------------------

    def _kind(self) -> str:
        """What kind of environments these are, in words that differ if they do."""
        raise NotImplementedError

    def _go_on_from(self, is_ready: list[bool]) -> None:
        """These may be stepped, and all of them have been seen."""
        raise NotImplementedError

    def _all_observations(self) -> Any:
        """As a reset returns them."""
        raise NotImplementedError
