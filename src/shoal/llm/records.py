"""What is written down of a trajectory: enough to train on it, to look at it, and to play it again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.llm.ledger import Segment
from shoal.llm.status import Status
from shoal.vector.errors import ConfigurationError

VERSION = 1


@dataclass
class TurnRecord:
    """One turn: what the player was shown, what it said, and what came of it."""

    state: str
    """What the world showed."""
    messages: list[dict[str, str]]
    """What was added to the conversation; all of it where it does not continue."""
    completion: str
    """What the player said, as it was."""
    prompt_ids: list[int] | None = None
    """What was added to the tokens; all of them where they do not continue."""
    completion_ids: list[int] | None = None
    logprobs: list[float] | None = None
    continues: bool = False
    """Whether the tokens (or, without a tokenizer, the messages) of this turn come after those of the last one."""
    actions: list[Any] = field(default_factory=list)
    """What was carried out."""
    is_valid: bool = True
    """Whether all that was said were actions."""
    reason: str = ""
    """Why not."""
    reward: float = 0.0
    """What the world gave."""
    penalty: float = 0.0
    """What is subtracted for an answer that is not valid."""
    info: dict[str, Any] = field(default_factory=dict)
    status: Status = Status.OK


@dataclass
class TrajectoryRecord:
    """One member's trajectory."""

    env_type: str
    tag: str
    config: dict[str, Any]
    """Of the world: what is not as it is by default."""
    seed: int | None
    """Of the task."""
    options: dict[str, Any] | None
    """With which the episode began, such as the seed of its noise."""
    mode: str
    group: int
    member: int
    round: int = 0
    """How many groups were played before this one in the same place, because they were of no use."""
    attempt: int = 0
    """How often this member was begun before, because it had failed."""
    turns: list[TurnRecord] = field(default_factory=list)
    final_state: str = ""
    status: Status = Status.OK
    success: bool = False
    terminated: bool = False
    truncated: bool = False
    """By the world."""
    error: str = ""
    """Why it failed."""
    drift: dict[str, int] = field(default_factory=dict)
    """How often its tokens stayed what they were; see :class:`shoal.llm.ledger.Drift`."""
    version: int = VERSION

    @property
    def task(self) -> str:
        """What members of a group have in common."""
        return f"{self.tag}/{self.seed}"

    @property
    def key(self) -> tuple[int, int, int, int]:
        """What it is known by in its rollout."""
        return self.round, self.group, self.member, self.attempt

    @property
    def id(self) -> str:
        """The same as a text."""
        return "/".join(map(str, self.key))

    @property
    def has_failed(self) -> bool:
        """Whether it says nothing about the player. It is to be left out, and is no success with a reward of zero."""
        return self.status.is_failure

    @property
    def episode_return(self) -> float:
        """All rewards, less all penalties."""
        return math.fsum(turn.reward - turn.penalty for turn in self.turns)

    def segments(self) -> list[Segment]:
        """Its tokens, as they were read and said: one sequence, or several where a conversation did not go on."""
        segments: list[Segment] = []
        for number, turn in enumerate(self.turns):
            if turn.prompt_ids is None or turn.completion_ids is None:
                continue
            if not turn.continues or not segments:
                segments.append(Segment())
            segments[-1].read(turn.prompt_ids)
            segments[-1].say(number, turn.completion_ids, turn.logprobs, turn.reward - turn.penalty)
        return segments

    def to_json(self) -> dict[str, Any]:
        """As plain values, which JSON can hold."""
        return {name: plain_json(getattr(self, name)) for name in _FIELDS} | {
            "turns": [{name: plain_json(getattr(turn, name)) for name in _TURN_FIELDS} for turn in self.turns]
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TrajectoryRecord:
        """From what :meth:`to_json` gave."""
        if value.get("version") != VERSION:
            raise ConfigurationError(
                f"this trajectory was written in version {value.get('version')!r} of the format, and this is Shoal for "
                f"version {VERSION}"
            )
        known = {name: value[name] for name in _FIELDS if name in value}
        turns = [_turn({name: one[name] for name in _TURN_FIELDS if name in one}) for one in value.get("turns", [])]
        known |= {"status": Status(known["status"]), "turns": turns, "config": _numbered(known["config"])}
        return cls(**known)


_FIELDS = tuple(one.name for one in dataclasses.fields(TrajectoryRecord))
_TURN_FIELDS = tuple(one.name for one in dataclasses.fields(TurnRecord))


def _turn(value: dict[str, Any]) -> TurnRecord:
    return TurnRecord(**{**value, "status": Status(value.get("status", Status.OK))})


def plain_json(value: Any) -> Any:
    """A value that JSON can hold and gives back as it was; a text for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, np.ndarray):
        return plain_json(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): plain_json(one) for name, one in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes):
        return [plain_json(one) for one in value]
    return f"{value!r:.1000}"


def _numbered(value: Any) -> Any:
    """With numbers as keys where there were numbers."""
    if not isinstance(value, dict):
        return value
    return {int(name) if name.lstrip("-").isdigit() else name: _numbered(one) for name, one in value.items()}
