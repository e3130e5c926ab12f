"""How much of a conversation a player sees."""

from __future__ import annotations

import pytest

from shoal import ConfigurationError
from shoal.llm.context import Conversation, Window


def played(window: Window, turns: int = 4) -> list[str]:
    """What is seen in the last of these turns."""
    conversation = Conversation(window, lambda messages: sum(len(one["content"]) for one in messages))
    seen = []
    for turn in range(turns):
        if turn:
            conversation.note(f"a{turn - 1}")
        conversation.tell(f"whole {turn}", f"short {turn}")
        seen = conversation.messages()
    assert [one["role"] for one in seen[-3:]][-1] == "user"
    return [one["content"] for one in seen]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window("full"), ["whole 0", "a0", "short 1", "a1", "short 2", "a2", "short 3"]),
        (Window("last", turns=1), ["whole 2", "a2", "short 3"]),
        (Window("last", turns=9), ["whole 0", "a0", "short 1", "a1", "short 2", "a2", "short 3"]),
        (Window("single"), ["whole 3"]),
        (Window("single", system="be brief"), ["be brief", "whole 3"]),
        (Window("tokens", tokens=30), ["whole 1", "a1", "short 2", "a2", "short 3"]),
        (Window("tokens", tokens=1), ["whole 3"]),
    ],
    ids=lambda value: f"{value.kind}-{value.turns}-{value.tokens}" if isinstance(value, Window) else "",
)
def test_a_window_shows_what_it_says(window: Window, expected: list[str]) -> None:
    assert played(window) == expected


def test_a_full_conversation_is_only_added_to() -> None:
    conversation, before = Conversation(Window("full")), list[dict[str, str]]()
    for turn in range(5):
        conversation.tell(f"whole {turn}", f"short {turn}")
        messages = conversation.messages()
        assert messages[: len(before)] == before
        before = [*messages, {"role": "assistant", "content": f"a{turn}"}]
        conversation.note(f"a{turn}")


def test_wrong_windows_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="window must be one of .*, got 'ful'. Did you mean 'full'"):
        Window("ful")
    with pytest.raises(ConfigurationError, match="turns must be"):
        Window("last", turns=0)
