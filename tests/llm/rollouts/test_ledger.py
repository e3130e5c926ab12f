"""Tokens are only added to, whatever the tokenizer and its template do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("transformers")

from shoal.llm.ledger import Ledger, Segment, Tokens
from tests.llm.rollouts.tokenizers import all_tokenizers

TOKENIZERS = all_tokenizers()
KINDS = sorted(TOKENIZERS)
said = st.text(st.sampled_from("Up <think></> w1 Left é猫\n"), min_size=1, max_size=30)


def play(tokenizer: Any, answers: list[str], *, split: bool) -> tuple[Ledger, list[tuple[int, ...]], list[bool]]:
    """A conversation in which the model says these. ``split``: its tokens are not those that the tokenizer would choose."""
    tokens = Tokens(tokenizer)
    ledger, messages = Ledger(tokens), [{"role": "user", "content": "#_P"}]
    wholes, goes_on = [], []
    for answer in answers:
        prompt = ledger.read(messages)
        ids = [one for letter in answer for one in tokens.encode(letter)] if split else list(tokens.encode(answer))
        ids.append(tokenizer.eos_token_id)
        prompt, own = ledger.said(messages, prompt, answer, ids, None)
        wholes.append((*prompt.ids, *own))
        goes_on.append(prompt.continues)
        messages = [
            *messages,
            {"role": "assistant", "content": answer},
            {"role": "user", "content": "Reward: 1\n\n_P_"},
        ]
    return ledger, wholes, goes_on


@pytest.mark.parametrize("kind", KINDS)
@given(answers=st.lists(said, min_size=2, max_size=4), split=st.booleans())
def test_what_was_read_and_said_stays(kind: str, answers: list[str], split: bool) -> None:
    ledger, wholes, goes_on = play(TOKENIZERS[kind], answers, split=split)
    for before, after, continues in zip(wholes, wholes[1:], goes_on[1:], strict=False):
        if continues:
            assert after[: len(before)] == before
    drift = ledger.drift
    assert drift.clean + drift.realigned + drift.forked == len(answers) - 1
    assert drift.forked == (len(answers) - 1) * (kind == "hides_answers")


@pytest.mark.parametrize("kind", ["words", "chatml"])
def test_tokens_as_the_tokenizer_would_choose_them_are_clean(kind: str) -> None:
    ledger, wholes, _ = play(TOKENIZERS[kind], ["Up", "Left", "Up"], split=False)
    assert (ledger.drift.clean, ledger.drift.realigned, ledger.drift.forked) == (2, 0, 0)
    assert wholes[-1].count(TOKENIZERS[kind].eos_token_id) >= 3


@pytest.mark.parametrize(("kind", "split"), [("chatml", True), ("strips_thoughts", False)])
def test_what_would_become_other_tokens_is_kept_as_it_was_sampled(kind: str, split: bool) -> None:
    ledger, wholes, goes_on = play(TOKENIZERS[kind], ["<think> box </think> the box", "Up"], split=split)
    assert ledger.drift.realigned == 1
    assert goes_on == [False, True]
    text = TOKENIZERS[kind].decode(list(wholes[-1]))
    assert text == (
        "<|im_start|>user\n#_P<|im_end|>\n<|im_start|>assistant\n<think> box </think> the box<|im_end|>\n"
        "<|im_start|>user\nReward: 1\n\n_P_<|im_end|>\n<|im_start|>assistant\nUp<|im_end|>"
    )


def test_another_conversation_begins_anew_and_is_no_fork() -> None:
    ledger = Ledger(Tokens(TOKENIZERS["chatml"]))
    for content in ("a", "b"):
        messages = [{"role": "user", "content": content}]
        prompt = ledger.read(messages)
        assert not prompt.continues
        ledger.said(messages, prompt, "Up", None, None)
    assert ledger.drift.forked == 0


def test_what_the_server_says_that_it_read_counts() -> None:
    ledger = Ledger(Tokens(TOKENIZERS["chatml"]))
    messages = [{"role": "user", "content": "a"}]
    prompt, _ = ledger.said(messages, ledger.read(messages), "Up", [7], [5, 6])
    assert (prompt.ids, prompt.continues) == ((5, 6), False)
    messages += [{"role": "assistant", "content": "Up"}, {"role": "user", "content": "b"}]
    asked = ledger.read(messages)
    prompt, _ = ledger.said(messages, asked, "Up", [8], [5, 6, 7, 9])
    assert (prompt.ids, prompt.continues) == ((5, 6, 7, 9), True)
    messages += [{"role": "assistant", "content": "Up"}, {"role": "user", "content": "c"}]
    prompt, _ = ledger.said(messages, ledger.read(messages), "Up", [8], [1, 2])
    assert (prompt.ids, prompt.continues) == ((1, 2), False)
    assert ledger.drift.forked == 1


def test_a_tokenizer_without_a_template_will_do() -> None:
    tokenizer = all_tokenizers()["chatml"]
    tokenizer.chat_template = None
    text = Tokens(tokenizer).text([{"role": "user", "content": "a"}])
    assert text == "user: a\nassistant: "


def test_a_segment_knows_what_was_said_and_what_it_was_worth() -> None:
    segment = Segment()
    segment.read([1, 2])
    segment.say(0, [3, 4], [-0.5, -0.25], 1.5)
    segment.read([5])
    segment.say(1, [6], None)
    assert segment.ids == [1, 2, 3, 4, 5, 6]
    assert segment.mask == [0, 0, 1, 1, 0, 1]
    assert segment.logprobs == [None, None, -0.5, -0.25, None, None]
    assert [tuple(span) for span in segment.spans] == [(0, 2, 4, 1.5), (1, 5, 6, 0.0)]
