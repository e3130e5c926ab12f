"""Trajectories: what each member of a batch was shown, what it did, and what that led to, written down turn by turn.

It is the same code wherever worlds are, and the only place where a trajectory changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shoal.llm.members import Tag
from shoal.llm.pictures import entry_of
from shoal.llm.status import Status
from shoal.llm.worlds import Shown
from shoal.vector.errors import InvalidAction

INVALID = "manager_invalid_action"
"""In the info of a turn without any action, and in the entry that follows it."""


@dataclass
class EnvStatus:
    """How far a trajectory is."""

    truncated: bool = False
    """It has ended without success."""
    terminated: bool = False
    """It has ended."""
    num_actions: int = 0
    """Actions that were carried out."""
    rewards: list[float] = field(default_factory=list)
    """Of each turn."""
    seed: int | None = None
    status: Status = Status.OK
    """Why it has ended, if it was not the world that ended it."""


class Turn(NamedTuple):
    """What a player wants to do."""

    env_id: int
    actions: list[Any]
    """As the world knows them, no more than it may still take."""
    is_well_formed: bool
    """Whether all that was written were actions."""
    response: str
    raw_response: str


class Trajectory:
    """One member of the batch."""

    def __init__(self, env_id: int, group_id: int, tag: Tag, format_penalty: float) -> None:
        self.env_id, self.group_id, self.tag = env_id, group_id, tag
        self.max_actions_per_traj = tag.max_actions_per_traj
        self._format_penalty = format_penalty
        self._numbers: Mapping[Any, Any] | None = None
        """What actions are called, the other way round."""
        self.status = EnvStatus()
        self.cache: dict[str, Any] = {}

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing more to do."""
        return self.status.terminated

    def begin(self, seed: int, shown: Shown) -> None:
        """A new one begins."""
        self.status = EnvStatus(seed=seed)
        self.cache = {
            "env_id": self.env_id,
            "history": [],
            "group_id": self.group_id,
            "tag": self.tag.name,
            "penalty": 0,
            "status": Status.OK,
        }
        if shown.status.is_failure:
            self._show({"state": ""})
            self._fail(shown)
            return
        self._call_actions(shown)
        self._show(entry_of(shown.state))

    def turn_of(self, given: Mapping[str, Any]) -> Turn:
        """What this input asks for. Names that are no actions are left out."""
        actions, numbers = given["actions"], self._numbers
        if isinstance(actions, str) or not isinstance(actions, list | tuple):
            raise InvalidAction(f"the actions of environment {self.env_id} must be a list, got {actions!r}")
        known = (
            list(actions) if numbers is None else [numbers[name] for one in actions if (name := _name(one)) in numbers]
        )
        return Turn(
            self.env_id,
            known[: self.max_actions_per_traj - self.status.num_actions],
            bool(known) and len(known) == len(actions),
            given.get("llm_response", ""),
            given.get("llm_raw_response", ""),
        )

    def note(self, turn: Turn, shown: Shown | None) -> None:
        """Write down what a turn led to; ``None`` where nothing was done."""
        status, history = self.status, self.cache["history"]
        if not turn.is_well_formed:
            self.cache["penalty"] -= self._format_penalty
        if shown is None:
            reward, executed, info = 0.0, 0, {INVALID: True}
        else:
            reward, executed, info = shown.reward, shown.executed, shown.info
        status.num_actions += executed
        status.rewards.append(reward)
        last = history[-1]
        last["actions"], last["reward"], last["info"] = turn.actions[:executed], reward, info
        last["llm_response"], last["llm_raw_response"] = turn.response, turn.raw_response
        if shown is None:
            images = {"images": last["images"]} if "images" in last else {}
            self._show({"state": last["state"], **images, INVALID: True})
            return
        if shown.status.is_failure:
            last["error"] = shown.error
            self._show({"state": last["state"]})
            self._fail(shown)
            return
        self._call_actions(shown)
        self._show(entry_of(shown.state))
        if shown.terminated or shown.truncated:
            self._end(shown.status, is_success=bool(info.get("success", False)))
        elif status.num_actions >= self.max_actions_per_traj:
            self._end(Status.TRUNCATED, is_success=False)

    def _call_actions(self, shown: Shown) -> None:
        if not isinstance(shown.lookup, str):
            lookup = shown.lookup
            self._numbers = None
            if lookup is not None:  # numbers are understood as well, and names win where they look the same
                self._numbers = {number: number for number in lookup} | {
                    _name(lookup[number]): number for number in lookup
                }

    def _show(self, entry: dict[str, Any]) -> None:
        entry["actions_left"] = self.max_actions_per_traj - self.status.num_actions
        self.cache["history"].append(entry)

    def _end(self, status: Status, *, is_success: bool) -> None:
        self.status.terminated, self.status.truncated = True, not is_success
        self.status.status = self.cache["status"] = status

    def _fail(self, shown: Shown) -> None:
        self._end(shown.status, is_success=False)
        self.cache["error"] = shown.error


def _name(action: Any) -> Any:
    return action.strip().lower() if isinstance(action, str) else action
