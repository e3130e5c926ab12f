"""Whether an answer is the right one: by its text, or by the number that it is. Nothing is executed, and all is bounded."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

LONGEST_NUMBER = 100
"""A text that is longer is no number."""
LONGEST_SENTENCE = 1000
MOST_DIGITS = 40

_BLANKS = re.compile(r"\s+")
_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)\s*(?P<money>[$€£]?)\s*"
    rf"(?:(?:(?P<whole>[0-9]+)\s+)?(?P<over>{_DIGITS})\s*/\s*(?P<under>{_DIGITS})"
    rf"|(?P<decimal>{_DIGITS}?\.[0-9]+|{_DIGITS}\.?))"
    rf"(?P<gap>\s*)(?P<unit>%|[a-z][a-z ]*)?\.?"
)
_FRACTION = re.compile(r"\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}")
_MONEY = {"$": "dollar", "€": "euro", "£": "pound"}
_SHORT_UNITS = frozenset(("m", "g", "l", "s", "h", "cm", "mm", "km", "kg", "mg", "ml", "am", "pm", "ft", "lb", "mph"))
_NO_UNITS = frozenset((
    "hundred", "thousand", "million", "billion", "trillion", "dozen", "score", "half", "halves", "third", "thirds", "quarter",
    "quarters", "tenths", "hundredths", "and", "or", "to", "by", "of", "over", "point", "times", "plus", "minus", "squared",
    "cubed", "factorial", "mod", "root", "pi", "negative", "not", "less", "more", "about", "approximately",
))  # fmt: skip
"""Words that make another number of a number."""
_STATED = re.compile(r"(?:answer is|answer:|=)")
_SEVERAL = re.compile(r"[;,]\s|\b(?:and|or)\b")
_LOOSE_NUMBER = re.compile(r"(?<![\w.,/^\\{(*+])-?[$€£]?[0-9][0-9,]*(?:\.[0-9]+)?(?:/[0-9]+)?%?(?![\w^*/(+=\\{])")
_NO_SENTENCE = re.compile(r"[\^*+=\\{}()\[\]<>|]|\b[b-hj-z]\b")


class Quantity(NamedTuple):
    """A number, exactly, and of what."""

    value: Fraction
    unit: str


def same_text(answer: str, gold: str) -> bool:
    """Whether both are the same without blanks and in small letters."""
    return _BLANKS.sub("", answer.lower()) == _BLANKS.sub("", gold.lower())


def same_number(answer: str, gold: str) -> bool:
    """Whether both are numbers, and equal; a unit may be left out, but two must agree. 50% is 50, and also 1/2."""
    left, right = quantity_of(answer), quantity_of(gold)
    if left is None or right is None:
        return False
    if left.unit == right.unit:
        return left.value == right.value
    if left.unit and right.unit:
        return False
    if left.value == right.value:
        return True
    percent, plain = (left, right) if left.unit else (right, left)
    return percent.unit == "percent" and percent.value == 100 * plain.value


def quantity_of(text: str) -> Quantity | None:
    """The number that this text is, as a whole; ``None`` where that is not certain."""
    if len(text) > LONGEST_NUMBER:
        return None
    text = text.strip().lower().replace(r"\$", "$").replace(r"\%", "%").replace("\N{MINUS SIGN}", "-")
    text = _FRACTION.sub(r"\1/\2", text)
    if len(text) > 2 and text[0] == text[-1] == "$":
        text = text[1:-1]
    found = _NUMBER.fullmatch(text)
    if found is None or sum(map(str.isdigit, text)) > MOST_DIGITS:
        return None
    unit = _unit_of(found["unit"] or "", has_gap=bool(found["gap"]))
    if unit is None or (found["money"] and unit):
        return None
    if found["under"]:
        under = _whole(found["under"])
        if not under or (found["whole"] and _whole(found["over"]) >= under):
            return None
        value = Fraction(_whole(found["over"]), under) + _whole(found["whole"] or "0")
    else:
        value = Fraction(found["decimal"].replace(",", "").rstrip("."))
    return Quantity(-value if found["sign"] == "-" else value, _MONEY.get(found["money"], unit))


def _unit_of(text: str, *, has_gap: bool) -> str | None:
    """The unit, in the singular; ``None`` for words that are part of the number, or that may be letters of a formula."""
    if text == "%":
        return "percent"
    words = text.split()
    if not words:
        return ""
    is_known = len(words) <= 3 and not _NO_UNITS.intersection(words)
    is_short = len(words[0]) < 3 or not has_gap
    if not is_known or (is_short and words[0] not in _SHORT_UNITS):
        return None
    return " ".join(words).removesuffix("s") or words[0]


def _whole(digits: str) -> int:
    return int(digits.replace(",", ""))


def number_in(answer: str) -> str:
    """The number that an answer states: ``"42"`` of ``"So the answer is 42."``. The whole answer where that is not certain."""
    if len(answer) > LONGEST_SENTENCE or quantity_of(answer) is not None:
        return answer
    stated = _STATED.split(answer.lower())
    if len(stated) == 2 or (len(stated) > 2 and not _SEVERAL.search(answer.lower())):
        last = answer[len(answer) - len(stated[-1]) :].strip(" :.\n\t")
        if quantity_of(last) is not None:
            return last
    if _NO_SENTENCE.search(answer.lower()):
        return answer  # a formula, perhaps
    numbers = _LOOSE_NUMBER.findall(answer)
    if (
        len(numbers) != 1
        or quantity_of(numbers[0]) is None
        or _NO_UNITS.intersection(re.findall("[a-z]+", answer.lower()))
    ):
        return answer
    return str(numbers[0])
