"""What a model answers: the text in its last complete ``<action>`` or ``<answer>`` that is not part of its thoughts.

Thoughts are what stands in ``<think>…</think>``; what follows a ``<think>`` that is never closed; and, where the first of these
tags is a ``</think>``, what comes before it, because many prompts end with the opening one.

The text is searched from its end, tag by tag, and nothing is searched twice. So the time is that of a few looks at the text,
whatever it is stuffed with.
"""

from __future__ import annotations

from typing import Final, NamedTuple

THINK, END_THINK = "<think>", "</think>"
KINDS: Final = ("action", "answer")
TAGS: Final = (THINK, END_THINK, *(f"<{kind}>" for kind in KINDS), *(f"</{kind}>" for kind in KINDS))

LONGEST_TEXT = 2**20
"""Of what a model writes, in characters. No model writes more in a turn."""
LONGEST_ANSWER = 10_000
MOST_THOUGHTS = 100
"""So many thoughts that follow the answer may have answers of their own in them, each of which is looked at."""


class NoAnswer(ValueError):
    """Why there is no answer in a text."""


class Found(NamedTuple):
    """Where an answer is: its tag, its text, and the end of that."""

    begin: int
    content: int
    end: int


def read_answer(text: str) -> str:
    """What the model answers, without blanks around it; raises :class:`NoAnswer`, which says why there is none."""
    if not isinstance(text, str):
        raise NoAnswer(f"it is no text but a {type(text).__name__}")
    if len(text) > LONGEST_TEXT:
        raise NoAnswer(f"the text has {len(text)} characters, and may have {LONGEST_TEXT}")
    found = [one for one in (_last_answer(text, kind) for kind in KINDS) if one is not None]
    if not found:
        raise NoAnswer("there is no complete <action> or <answer> outside of <think>")
    _, begin, end = max(found, key=lambda one: one.end)
    if end - begin > LONGEST_ANSWER:
        raise NoAnswer(f"the answer has {end - begin} characters, and may have {LONGEST_ANSWER}")
    answer = text[begin:end]
    if any(tag in answer for tag in TAGS):
        raise NoAnswer("there is a tag inside the answer")
    if not (stripped := answer.strip()):
        raise NoAnswer("the answer is empty")
    return stripped


def _last_answer(text: str, kind: str) -> Found | None:
    """The last complete answer of this kind that neither begins nor ends in a thought."""
    scan, opening, closing = _BackwardScan(text), f"<{kind}>", f"</{kind}>"
    limit = len(text)
    for _ in range(MOST_THOUGHTS):
        last_end = scan.before(closing, limit)
        begin = -1 if last_end == -1 else scan.before(opening, last_end)
        if begin == -1:
            return None
        content = begin + len(opening)
        end = text.find(closing, content)  # one that is closed twice ends where it is closed first
        thought = _thought_around(scan, end)
        thought = _thought_around(scan, begin) if thought is None else thought
        if thought is None:
            return Found(begin, content, end)
        limit = thought  # all that follows is part of this thought, or begins in it
    raise NoAnswer(f"more than {MOST_THOUGHTS} thoughts with answers in them follow the last answer, if there is one")


def _thought_around(scan: _BackwardScan, place: int) -> int | None:
    """Where the thought begins that this place is part of; ``None`` if it is not part of one."""
    opened, closed = scan.before(THINK, place), scan.before(END_THINK, place)
    if opened > closed:
        return opened
    # The opening tag of the first thought may stand in the prompt.
    return 0 if scan.begins_in_thought and place < scan.first_closed else None


class _BackwardScan:
    """Looks for tags before places that come ever nearer to the beginning. What was found is not looked for again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known: dict[str, int] = {}
        self.first_closed = text.find(END_THINK)
        self.begins_in_thought = self.first_closed != -1 and text.find(THINK, 0, self.first_closed) == -1

    def before(self, tag: str, limit: int) -> int:
        """Where this tag begins for the last time so that it ends before ``limit``; -1 if it does not."""
        known = self._known.get(tag)
        if known is None or (known != -1 and known + len(tag) > limit):
            known = self._known[tag] = self._text.rfind(tag, 0, limit)
        return known
