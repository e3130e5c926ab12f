"""What a player may see of its conversation: all of it, the last turns, this turn alone, or as much as fits.

::

    full      user 0, assistant 0, user 1, assistant 1, user 2          grows, and nothing in it ever changes
    last k    user 1, assistant 1, user 2                               begins with a whole prompt each time
    single    user 2                                                    past turns are a few lines of the prompt
    tokens    as many of the last turns as fit into the prompt's length

A whole prompt says the rules, the past as the environment manager tells it, and what the world shows; a short one what the
world shows and what the last turn was worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from shoal.llm.policies.requests import Message
from shoal.vector.arguments import check_choice, check_count

WINDOWS: Final = ("full", "last", "single", "tokens")


@dataclass(frozen=True)
class Window:
    """How much of a conversation is shown."""

    kind: str = "single"
    turns: int = 5
    """For ``"last"``: so many turns beside the present one."""
    tokens: int = 2048
    """For ``"tokens"``: so many at most, if one turn is not longer."""
    system: str = ""
    """What every conversation begins with; empty for nothing."""

    def __post_init__(self) -> None:
        check_choice("window", self.kind, WINDOWS)
        check_count("turns", self.turns)
        check_count("tokens", self.tokens)


class Conversation:
    """What a player was told and has said, turn by turn."""

    def __init__(self, window: Window, count: Callable[[Sequence[Message]], int] | None = None) -> None:
        self._window, self._count = window, count
        self._whole: list[str] = []
        """Each turn's prompt, if a conversation begins with it ..."""
        self._short: list[str] = []
        """... and if it goes on with it."""
        self._said: list[str] = []
        self._first = 0
        """With which turn the window begins."""

    def tell(self, whole: str, short: str) -> None:
        """A turn begins."""
        self._whole.append(whole)
        self._short.append(short)

    def note(self, said: str) -> None:
        """What the player has said in it."""
        self._said.append(said)

    def messages(self) -> list[Message]:
        """The conversation, as far as the window reaches."""
        last, window = len(self._whole) - 1, self._window
        if window.kind == "single":
            self._first = last
        elif window.kind == "last":
            self._first = max(0, last - window.turns)
        messages = self._from(self._first)
        if window.kind == "tokens" and self._count is not None:
            while self._first < last and self._count(messages) > window.tokens:
                self._first += 1
                messages = self._from(self._first)
        return messages

    def _from(self, first: int) -> list[Message]:
        messages = [{"role": "system", "content": self._window.system}] if self._window.system else []
        messages.append({"role": "user", "content": self._whole[first]})
        for said, told in zip(self._said[first:], self._short[first + 1 :], strict=True):
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": told}]
        return messages
