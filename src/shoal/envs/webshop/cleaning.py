"""Texts of sellers are not trusted: what could be taken for a mark of ours, of a prompt or of a page, is taken out."""

from __future__ import annotations

import re

LONGEST_TEXT = 4000
_MARKUP = re.compile(r"<[/|!a-zA-Z][^<>]{0,200}>|\[/?[A-Za-z]{2,10}\]")
_BRACKETS = str.maketrans("<>[]", "    ")
_ROUNDS = 3
"""Marks may be hidden in marks. What is left after so many rounds has no brackets any more, and is no mark either."""


def clean(text: object, longest: int = LONGEST_TEXT) -> str:
    """One line, of printable characters, without tags, special tokens, and square or angle brackets; not too long."""
    words = "" if text is None else str(text)[: 4 * longest]
    for _ in range(_ROUNDS):
        words = _MARKUP.sub(" ", words)
    words = "".join(one if one.isprintable() else " " for one in words.translate(_BRACKETS))
    return " ".join(words.split())[:longest].rstrip()
