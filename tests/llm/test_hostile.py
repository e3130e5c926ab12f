"""Everything a model can say is data: it is read in bounded time and memory, and nothing in it is executed."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.llm import create_projection_function
from shoal.llm.answers import TAGS
from shoal.llm.grammars import GRAMMARS

ENV_TYPES = [*GRAMMARS, "something else"]
MOST_SECONDS = 0.010
MEGABYTE = 2**20

PIECES = [
    *TAGS,
    "up", "Down", "phoenix", "1", "2 + 3", "search[x]", "42", " ", "\n", "\0", "<", "</", "<act", ">", "<<<<",
    "(" * 40, ")" * 40, "9" * 300, "9**9**9", "-" * 300, "1/", "[" * 50, "{0}", "%s", "\\", "'", '"',
    "__import__('os').system('touch /tmp/owned')", "open('/etc/passwd').read()", "().__class__.__bases__[0]",
    "import os", "eval('1')", "lambda: 0", "$(reboot)", "`reboot`", "${jndi:x}", "'; DROP TABLE x; --",
    "٣", "１", "²", "Ⅷ", "\u202e", "\u200b", "\ud800", "😀" * 20, "ﬀ", "İ", "ß", "a\u0301" * 10,
]  # fmt: skip

MEGABYTES = {
    "brackets": "(" * MEGABYTE,
    "an answer of brackets": f"<answer>{'(' * (MEGABYTE - 20)}</answer>",
    "the beginning of a tag": "<" * MEGABYTE,
    "half a tag": "<think" * (MEGABYTE // 6),
    "half an end": "</answer" * (MEGABYTE // 8),
    "opened": "<answer>" * (MEGABYTE // 8),
    "closed": "</answer>" * (MEGABYTE // 9),
    "thoughts opened": "<think>" * (MEGABYTE // 7),
    "thoughts closed": "</think>" * (MEGABYTE // 8),
    "answers": "<answer>x</answer>" * (MEGABYTE // 18),
    "thoughts": "<think>x</think>" * (MEGABYTE // 16),
    "thoughts with answers": "<think><answer>x</answer></think>" * (MEGABYTE // 33),
    "thoughts around ends": "<answer><think></answer></think>" * (MEGABYTE // 32),
    "both, crosswise": "<answer><action></answer></action>" * (MEGABYTE // 34),
    "closed before opened": "</action><action>" * (MEGABYTE // 17),
    "blanks": f"<answer>{' ' * (MEGABYTE - 20)}</answer>",
    "blanks around": f"{' ' * (MEGABYTE - 40)}<answer>up</answer>",
    "other letters": "é" * (MEGABYTE - 40) + "<answer>up</answer>",
    "large letters": "😀" * (MEGABYTE - 40) + "<answer>up</answer>",
    "an answer far ahead": "<answer>up</answer>" + "x" * (MEGABYTE - 40),
    "more than a megabyte": "<answer>" * MEGABYTE,
}


def seconds_for(function: Any, *arguments: Any) -> float:
    """Of this thread's work, the least of three times, because a busy machine adds to it and nothing takes from it."""
    times = []
    for _ in range(3):
        begin = time.thread_time()
        function(*arguments)
        times.append(time.thread_time() - begin)
        if times[-1] < MOST_SECONDS:
            break
    return min(times)


class Watch:
    """Notes whatever this thread executes, imports, opens or starts, in a ``with`` block. Python tells it to audit hooks."""

    TELLING = ("exec", "compile", "import", "open", "os.", "subprocess.", "socket.", "ctypes.", "marshal.", "pickle.")

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._thread: int | None = None
        sys.addaudithook(self._note)  # which cannot be removed

    def _note(self, event: str, _: Any) -> None:
        if self._thread == threading.get_ident() and event.startswith(self.TELLING):
            self.seen.append(event)

    def __enter__(self) -> Watch:
        self.seen.clear()
        self._thread = threading.get_ident()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread = None


@functools.cache
def watch() -> Watch:
    return Watch()


def test_whatever_is_executed_would_be_seen() -> None:
    with watch() as seen:
        eval("1 + 1")
        os.system("true")
        compile("1", "", "exec")
    assert {"exec", "os.system", "compile"} <= {*seen.seen}


@pytest.mark.parametrize("name", MEGABYTES)
@pytest.mark.parametrize("env_type", ENV_TYPES)
def test_a_megabyte_takes_no_time(env_type: str, name: str) -> None:
    for invalid_action in (None, "default"):
        project = create_projection_function(env_type, invalid_action=invalid_action)
        assert seconds_for(project, [MEGABYTES[name]]) < MOST_SECONDS


@pytest.mark.parametrize("env_type", ENV_TYPES)
@given(pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=20), max_size=15))
def test_any_text_is_an_action_or_none(env_type: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    (reading,) = create_projection_function(env_type).read([text])
    assert reading.raw is text
    assert reading.is_valid == (reading.action is not None) == (not reading.reason)
    assert isinstance(reading.action, int | str | None)
    assert len(reading.reason) < 500


def fuzzed(num_texts: int, seed: int) -> Iterator[str]:
    """Texts that a model might write if it wanted to do harm, or learned at random."""
    random = np.random.default_rng(seed)
    for _ in range(num_texts):
        kind = random.random()
        count = int(random.integers(1, 12) if kind < 0.8 else random.integers(12, 400))
        chosen = [PIECES[number] for number in random.integers(len(PIECES), size=count)]
        if kind > 0.5:
            place = int(random.integers(len(chosen) + 1))
            kind_of_tag = "answer" if kind > 0.6 else "action"
            chosen = [*chosen[:place], f"<{kind_of_tag}>", *chosen[place : place + 2], f"</{kind_of_tag}>"]
        yield "".join(chosen)


def check_fuzzed(env_type: str, num_texts: int, seed: int) -> None:
    project = create_projection_function(env_type)
    num_valid, slowest, peak_at_first = 0, 0.0, 0
    gc.collect()
    tracemalloc.start()
    try:
        texts = fuzzed(num_texts, seed)
        for number, batch in enumerate(iter(lambda: list(itertools.islice(texts, 100)), [])):
            for text in batch:
                with watch() as seen:
                    begin = time.thread_time()
                    (reading,) = project.read([text])
                    took = time.thread_time() - begin
                assert not seen.seen, ascii(text)
                if took > MOST_SECONDS:
                    took = seconds_for(project, [text])
                slowest = max(slowest, took)
                num_valid += reading.is_valid
                del reading
            if number == 4:
                tracemalloc.reset_peak()
                peak_at_first = tracemalloc.get_traced_memory()[0]
        grown = tracemalloc.get_traced_memory()[0] - peak_at_first
    finally:
        tracemalloc.stop()
    assert slowest < MOST_SECONDS
    assert grown < 2**20, "memory is flat"
    assert num_valid > num_texts // 2000, "some are answers"


@pytest.mark.parametrize("env_type", ENV_TYPES)
def test_fuzzed_answers_are_not_executed_and_take_no_time_and_no_memory(env_type: str) -> None:
    check_fuzzed(env_type, 2_000, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("env_type", ENV_TYPES)
def test_a_hundred_thousand_fuzzed_answers(env_type: str) -> None:
    check_fuzzed(env_type, 100_000, seed=2)
