"""What a policy is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

Message = dict[str, str]
"""``role`` and ``content``, as in chats."""
Key = tuple[int, ...]
"""What a trajectory is known by: round, group, member, attempt. It does not depend on who was served first."""
Finish = Literal["stop", "length", "overflow", "timeout", "error"]


@dataclass(frozen=True)
class Request:
    """One turn of one trajectory."""

    key: Key
    turn: int
    """Counted from 0."""
    messages: Sequence[Message]
    """The conversation so far, as far as the player may see it."""
    seed: int = 0
    """For sampling. It depends on the key and the turn alone."""
    prompt_ids: tuple[int, ...] | None = None
    """The same conversation in tokens, where there is a tokenizer."""
    max_tokens: int | None = None
    """How long the answer may be."""
    play: Any = None
    """The trajectory's :class:`Play`: its world, and what has been done in it. For policies that know the rules."""

    def __repr__(self) -> str:
        return f"Request(key={self.key}, turn={self.turn})"


@dataclass(frozen=True)
class Generation:
    """What a policy answers."""

    text: str
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    """Of each of these tokens, as it was sampled."""
    prompt_ids: tuple[int, ...] | None = None
    """What the model has read, if it says so."""
    finish: Finish = "stop"
    """``"length"``: cut off at ``max_tokens``. ``"overflow"``: the conversation is longer than the model can read."""
    error: str = ""
    """Why there is no text, where ``finish`` says so."""

    @property
    def has_failed(self) -> bool:
        """Whether there is no answer."""
        return self.finish in ("overflow", "timeout", "error")


class Play(NamedTuple):
    """A world, how its episode begins, and the turns that have been taken: enough to play all of it again."""

    make: Any
    """Makes the world."""
    order: Any
    """The order with which the episode begins."""
    turns: list[list[Any]]
    """The actions that were carried out, turn by turn."""


def sampling_seed(seed: int, key: Key, turn: int) -> int:
    """A seed that has nothing to do with those of other trajectories and turns."""
    words = [seed % 2**64, *(number % 2**64 for number in key), turn]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint32)[0] >> 1)
