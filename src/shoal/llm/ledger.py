"""The tokens of a trajectory, which are only ever added to: what was read, what was said, and what it was worth.

A conversation that is made into tokens anew each turn drifts: what the model has said comes back as other tokens, or a
template leaves its thoughts out. Then it is trained on what it never said. Here, what was sampled stays as it was sampled, and
only what comes after it is made into tokens. That works with any tokenizer and any template: a mark is put in the place of the
last answer, and what the template writes behind the mark is what comes next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shoal.llm.policies.requests import Message

MARK = "SHOALMARK7F3A9C"


class Tokens:
    """Makes tokens of conversations, with the template of a tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._has_template = getattr(tokenizer, "chat_template", None) is not None

    def text(self, messages: Sequence[Message]) -> str:
        """The conversation as one text, up to where the player is to go on."""
        if not self._has_template:
            return "".join(f"{one['role']}: {one['content']}\n" for one in messages) + "assistant: "
        text: str = self._tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        return text

    def encode(self, text: str) -> tuple[int, ...]:
        """The tokens of a text, without any that the tokenizer would put around it."""
        return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def of(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The tokens of a conversation."""
        return self.encode(self.text(messages))

    def count(self, messages: Sequence[Message]) -> int:
        """How many these are."""
        return len(self.of(messages))

    def after_answer(self, messages: Sequence[Message]) -> tuple[int, ...] | None:
        """The tokens behind the last answer; ``None`` if the template does not write answers."""
        last = max(place for place, one in enumerate(messages) if one["role"] == "assistant")
        marked = [*messages[:last], {**messages[last], "content": MARK}, *messages[last + 1 :]]
        _, mark, rest = self.text(marked).rpartition(MARK)
        return self.encode(rest) if mark else None


class Span(NamedTuple):
    """What was said in one turn: where it is in its segment, and what it was worth."""

    turn: int
    begin: int
    end: int
    reward: float


@dataclass
class Segment:
    """One sequence of tokens, as a model has read and said it."""

    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    """1 for what was said."""
    logprobs: list[float | None] = field(default_factory=list)
    """Of what was said, if it is known."""
    spans: list[Span] = field(default_factory=list)

    def read(self, ids: Sequence[int]) -> None:
        """What comes next is read."""
        self.ids.extend(ids)
        self.mask.extend([0] * len(ids))
        self.logprobs.extend([None] * len(ids))

    def say(self, turn: int, ids: Sequence[int], logprobs: Sequence[float] | None, reward: float = 0.0) -> None:
        """What comes next is said."""
        begin = len(self.ids)
        self.ids.extend(ids)
        self.mask.extend([1] * len(ids))
        self.logprobs.extend([None] * len(ids) if logprobs is None else logprobs)
        self.spans.append(Span(turn, begin, len(self.ids), reward))


class Prompt(NamedTuple):
    """What is read in a turn."""

    ids: tuple[int, ...]
    """All of it."""
    continues: bool
    """Whether it begins with all tokens so far, so that the segment goes on."""


@dataclass
class Drift:
    """How often tokens of a conversation stayed what they were."""

    clean: int = 0
    """Made anew, the conversation would have been the same tokens."""
    realigned: int = 0
    """It would not have been; what was sampled was kept."""
    forked: int = 0
    """It could not be continued, and a new segment has begun."""


class Ledger:
    """Keeps the tokens of one trajectory."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._so_far: tuple[int, ...] = ()
        self._messages: list[Message] = []
        """The conversation of these tokens, with the last answer."""
        self.drift = Drift()

    def read(self, messages: Sequence[Message]) -> Prompt:
        """The tokens of a conversation. It goes on where the last one has ended, if it is the same one."""
        fresh = self._tokens.of(messages)
        known = len(self._messages)
        if not known or list(messages[:known]) != self._messages:
            return Prompt(fresh, continues=False)
        if fresh[: len(self._so_far)] == self._so_far:
            self.drift.clean += 1
            return Prompt(fresh, continues=True)
        rest = self._tokens.after_answer(messages)
        if rest is None:
            self.drift.forked += 1
            return Prompt(fresh, continues=False)
        self.drift.realigned += 1
        if rest and rest[0] == self._so_far[-1]:
            rest = rest[1:]  # the token that ends an answer was sampled
        return Prompt((*self._so_far, *rest), continues=True)

    def said(
        self,
        messages: Sequence[Message],
        prompt: Prompt,
        text: str,
        ids: Sequence[int] | None,
        read: Sequence[int] | None,
    ) -> tuple[Prompt, tuple[int, ...]]:
        """Note an answer; returns what was read before it, and its tokens.

        ``read`` is what the model says that it has read. If that is something else, it counts.
        """
        if read is not None and tuple(read) != prompt.ids:
            continues = bool(self._so_far) and tuple(read[: len(self._so_far)]) == self._so_far
            if prompt.continues and not continues:
                self.drift.forked += 1
            prompt = Prompt(tuple(read), continues)
        own = self._tokens.encode(text) if ids is None else tuple(ids)
        self._so_far = (*prompt.ids, *own)
        self._messages = [*messages, {"role": "assistant", "content": text}]
        return prompt, own

    def added(self, prompt: Prompt, before: int) -> tuple[int, ...]:
        """What a prompt adds to the tokens that were there ``before``."""
        return prompt.ids[before:] if prompt.continues else prompt.ids

    @property
    def length(self) -> int:
        """How many tokens there are in the present segment."""
        return len(self._so_far)
