"""What a model answers: the text in its last complete ``<action>`` or ``<answer>`` that is not part of its thoughts.

Thoughts are what stands in ``<think>…</think>``; what follows a ``<think>`` that is never closed; and what comes before a
``</think>`` that was never opened, because many prompts end with the opening one.

The text is searched from its end, tag by tag, and nothing is searched twice. So the time is that of a few looks at the text,
whatever it is stuffed with.
"""

from __future__ import annotations

from typing import Final

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


def read_answer(text: str) -> str:
    """What the model answers, without blanks around it; raises :class:`NoAnswer`, which says why there is none."""
    if not isinstance(text, str):
        raise NoAnswer(f"it is no text but a {type(text).__name__}")
    if len(text) > LONGEST_TEXT:
        raise NoAnswer(f"the text has {len(text)} characters, and may have {LONGEST_TEXT}")
    scan = _Scan(text)
    limit = len(text)
    for _ in range(MOST_THOUGHTS):
        found = scan.last_answer(limit)
        if found is None:
            raise NoAnswer("there is no complete <action> or <answer> outside of <think>")
        begin, content, end = found
        thought = scan.thought_around(begin)
        if thought is None:
            return _checked(text, content, end)
        limit = thought
    raise NoAnswer(f"more than {MOST_THOUGHTS} thoughts with answers in them follow the last answer, if there is one")


def _checked(text: str, begin: int, end: int) -> str:
    if end - begin > LONGEST_ANSWER:
        raise NoAnswer(f"the answer has {end - begin} characters, and may have {LONGEST_ANSWER}")
    answer = text[begin:end]
    if any(tag in answer for tag in TAGS):
        raise NoAnswer("there is a tag inside the answer")
    if not (stripped := answer.strip()):
        raise NoAnswer("the answer is empty")
    return stripped


class _Scan:
    """Looks for tags from the end on. What was found once is not looked for again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known: dict[str, int] = {}

    def _before(self, tag: str, limit: int) -> int:
        """Where this tag begins for the last time so that it ends before ``limit``; -1 if it does not. Limits only fall."""
        known = self._known.get(tag)
        if known is None or known + len(tag) > limit:
            known = self._known[tag] = -1 if known == -1 else self._text.rfind(tag, 0, limit)
        return known

    def last_answer(self, limit: int) -> tuple[int, int, int] | None:
        """Where the last complete answer before ``limit`` begins, its tag first, and where its text ends."""
        found: tuple[int, int, int] | None = None
        for kind in KINDS:
            opening, closing = f"<{kind}>", f"</{kind}>"
            last_end = self._before(closing, limit)
            begin = -1 if last_end == -1 else self._before(opening, last_end)
            if begin != -1:
                # One that is closed twice ends where it is closed first.
                content = begin + len(opening)
                end = self._text.find(closing, content, limit)
                if found is None or end > found[2]:
                    found = begin, content, end
        return found

    def thought_around(self, place: int) -> int | None:
        """Where the thought begins that this place is part of; ``None`` if it is not part of one."""
        opened, closed = self._before(THINK, place), self._before(END_THINK, place)
        if opened > closed:
            return opened
        next_closed = self._text.find(END_THINK, place)
        is_stray = next_closed != -1 and self._text.find(THINK, place, next_closed) == -1
        return 0 if is_stray else None
