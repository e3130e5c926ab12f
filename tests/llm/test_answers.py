"""The last complete answer outside of thoughts is read, and nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.llm.answers import LONGEST_ANSWER, LONGEST_TEXT, MOST_THOUGHTS, TAGS, NoAnswer, read_answer

NONE = "there is no complete <action> or <answer> outside of <think>"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<action>up</action>", "up"),
        ("<answer> Up \n</answer>", "Up"),
        ("<think>left or right?</think><answer>right</answer>", "right"),
        ("left or right?</think> <answer>right</answer>", "right"),
        ("<answer>up</answer> no: <answer>down</answer>", "down"),
        ("<answer>up</answer> no: <action>down</action>", "down"),
        ("<answer>up</answer><think>or <answer>down</answer>?</think>", "up"),
        ("<answer>up</answer><think>or <answer>down</answer>?", "up"),
        ("<answer>up</answer><answer>down", "up"),
        ("<answer>up<answer>down</answer>", "down"),
        ("<answer>up</answer> down</answer>", "up"),
        ("<action>up</action></answer>", "up"),
        ("<think><action></think><action>up</action>", "up"),
        ("<think>a<think>b</think><answer>up</answer>", "up"),
        ("<think></think><action>up</action></think>", "up"),
        ("hm</think><action>up</action></think>", "up"),
        ("<answer>up</answer><action>down<think></action></think>", "up"),
        ("<think><action></think><answer>up</answer></action>", "up"),
        ("<answer>a < b > c</answer>", "a < b > c"),
        ("<answer>up</answer><think>1</think><think>2</think>", "up"),
        ("<answer>ünï 日本</answer>", "ünï 日本"),
    ],
)
def test_what_is_read(text: str, answer: str) -> None:
    assert read_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", NONE),
        ("up", NONE),
        ("<action>up", NONE),
        ("up</action>", NONE),
        ("</action>up<action>", NONE),
        ("<action>up</answer>", NONE),
        ("<ACTION>up</ACTION>", NONE),
        ("< action>up</ action>", NONE),
        ("<think><action>up</action></think>", NONE),
        ("<think><action>up</action>", NONE),
        ("<action>up</action></think>", NONE),
        ("<think><action></think>up</action>", NONE),
        ("<action>up<think></action></think>", NONE),
        ("<action><answer>up</answer></action>", "there is a tag inside the answer"),
        ("<action><think>x</think>up</action>", "there is a tag inside the answer"),
        ("<answer></answer>", "the answer is empty"),
        ("<answer>up</answer><answer> \n</answer>", "the answer is empty"),
        (f"<answer>{'x' * (LONGEST_ANSWER + 1)}</answer>", "the answer has 10001 characters, and may have 10000"),
        ("x" * (LONGEST_TEXT + 1), "the text has 1048577 characters, and may have 1048576"),
        (
            "<answer>up</answer>" + "<think><answer>up</answer></think>" * MOST_THOUGHTS,
            "more than 100 thoughts with answers in them follow the last answer",
        ),
    ],
)
def test_what_is_not_read(text: str, message: str) -> None:
    with pytest.raises(NoAnswer, match=re.escape(message)):
        read_answer(text)


def test_what_is_no_text_is_no_answer() -> None:
    for value in (None, 1, b"<action>up</action>", ["<action>up</action>"]):
        with pytest.raises(NoAnswer, match=f"it is no text but a {type(value).__name__}"):
            read_answer(value)  # type: ignore[arg-type]


def slow_answer(text: str) -> str | None:
    """The same rule, written to be read: one regular expression for thoughts, one for each answer."""
    if (first := re.search("</?think>", text)) and first[0] == "</think>":
        text = "\0" * first.end() + text[first.end() :]  # a thought that began in the prompt
    outside = re.sub("(?s)<think>.*?(</think>|$)", blank, text)
    last: tuple[int, int, int] | None = None
    for kind in ("action", "answer"):
        for found in re.finditer(f"<{kind}>", outside):
            end = text.find(f"</{kind}>", found.end())
            is_outside = end != -1 and outside.startswith(f"</{kind}>", end)
            if is_outside and (last is None or (end, found.start()) > (last[2], last[0])):
                last = found.start(), found.end(), end
    if last is None:
        return None
    content = text[last[1] : last[2]]
    return None if any(tag in content for tag in TAGS) else content.strip() or None


def blank(found: re.Match[str]) -> str:
    return "\0" * len(found[0])


@given(st.lists(st.sampled_from([*TAGS, "up", "down", " ", "<", "think>"]), max_size=12).map("".join))
def test_any_heap_of_tags_is_read_as_the_rule_says(text: str) -> None:
    expected = slow_answer(text)
    try:
        found: str | None = read_answer(text)
    except NoAnswer:
        found = None
    assert found == expected, text
