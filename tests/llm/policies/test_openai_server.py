"""Asking a server: in parallel, again when it is busy, and without ever telling the key."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("openai")

from shoal import ConfigurationError
from shoal.llm import OpenAIPolicy, PolicyError, Request
from tests.llm.policies.server import Server, running_server

KEY = "sk-very-secret-123"
BUSY = (503, {"error": {"message": "busy"}})


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as server:
        yield server


def request(member: int = 0, turn: int = 0, **more: Any) -> Request:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": f"board {member}"}], "seed": member, **more}
    return Request((0, 0, member, 0), turn, **asked)


def asking(server: Server, **more: Any) -> OpenAIPolicy:
    return OpenAIPolicy(server.url, api_key=KEY, **more)


def test_answers_are_in_the_order_of_the_requests(server: Server) -> None:
    requests = [request(member) for member in range(20)]
    with asking(server, concurrency=8) as policy:
        together = policy.generate(requests)
        alone = [policy.generate([one])[0] for one in requests]
    assert together == alone
    assert len({one.text for one in together}) > 5
    assert server.keys == {f"Bearer {KEY}"}
    assert server.asked[0]["model"] == "hash"


def test_so_many_at_once_and_not_more(server: Server) -> None:
    server.seconds = 0.02
    with asking(server, concurrency=4) as policy:
        policy.generate([request(member) for member in range(24)])
    assert 2 <= server.most_at_once <= 4


def test_whoever_is_ready_first_comes_first(server: Server) -> None:
    with asking(server) as policy:
        policy.submit([request(member) for member in range(5)])
        done: list[int] = []
        while found := policy.ready(timeout=20):
            done += [one.key[2] for one, _ in found]
        assert sorted(done) == [0, 1, 2, 3, 4]
        assert policy.ready(timeout=20) == []


def test_what_is_forgotten_is_not_heard_of_again(server: Server) -> None:
    server.seconds = 0.1
    with asking(server, concurrency=1) as policy:
        requests = [request(member) for member in range(3)]
        policy.submit(requests)
        policy.forget(requests[1:])
        assert [one.key[2] for one, _ in policy.ready(20)] == [0]
        assert policy.ready(20) == []


@pytest.mark.parametrize("prompts", ["messages", "tokens"])
def test_token_ids_and_logprobs_come_along(server: Server, prompts: Any) -> None:
    with asking(server, prompts=prompts, logprobs=True, extra={"top_k": 5}) as policy:
        [answer] = policy.generate([request(prompt_ids=(4, 5, 6))])
    assert answer.logprobs == (-0.5, -0.25, -0.125)
    assert answer.token_ids is not None
    assert len(answer.token_ids) == 3
    assert answer.prompt_ids == (1, 2, 3)
    assert server.asked[0]["top_k"] == 5
    assert ("prompt" in server.asked[0]) == (prompts == "tokens")
    assert server.asked[0].get("prompt", [4, 5, 6]) == [4, 5, 6]


def test_a_server_that_tells_no_tokens_will_do(server: Server) -> None:
    server.tells_tokens = False
    with asking(server) as policy:
        [answer] = policy.generate([request()])
    assert (answer.token_ids, answer.logprobs, answer.prompt_ids) == (None, None, None)
    assert answer.text


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(server: Server, status: int) -> None:
    server.trouble = lambda number, _: (status, {"error": {"message": "later"}}) if number < 2 else None
    with asking(server) as policy:
        [answer] = policy.generate([request()])
    assert answer.finish == "stop"
    assert len(server.asked) == 3


def test_a_server_that_stays_busy_is_one_turn_s_failure(server: Server) -> None:
    server.trouble = lambda number, asked: BUSY if asked["seed"] == 1 else None
    with asking(server, retries=1) as policy:
        good, bad = policy.generate([request(0), request(1)])
    assert good.finish == "stop"
    assert (bad.finish, bad.has_failed) == ("error", True)
    assert "503: " in bad.error
    assert "busy" in bad.error


def test_a_slow_server_is_a_timeout(server: Server) -> None:
    server.seconds = 0.5
    with asking(server, timeout=0.05, retries=0) as policy:
        [answer] = policy.generate([request()])
    assert answer.finish == "timeout"
    assert "did not answer in time" in answer.error


def test_a_server_that_is_away_is_said_to_be() -> None:
    with OpenAIPolicy("http://127.0.0.1:9/v1", "m", api_key=KEY, retries=0) as policy:
        [answer] = policy.generate([request()])
        assert answer.finish == "error"
        assert "cannot be asked" in answer.error
    with OpenAIPolicy("http://127.0.0.1:9/v1", api_key=KEY) as policy:
        with pytest.raises(PolicyError, match="does not say which models it has"):
            policy.generate([request()])


def test_a_conversation_that_is_too_long_is_no_error_of_the_server(server: Server) -> None:
    said = {"error": {"message": "This model's maximum context length is 10 tokens", "code": "context_length_exceeded"}}
    server.trouble = lambda *_: (400, said)
    with asking(server) as policy:
        [answer] = policy.generate([request()])
    assert answer.finish == "overflow"
    assert len(server.asked) == 1


def test_a_cut_answer_is_marked(server: Server) -> None:
    choice = {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": "<thi"}}
    server.trouble = lambda *_: (200, {"id": "1", "object": "o", "created": 0, "model": "m", "choices": [choice]})
    with asking(server) as policy:
        [answer] = policy.generate([request()])
    assert (answer.text, answer.finish) == ("<thi", "length")


def test_an_answer_without_choices_is_an_error_of_this_turn(server: Server) -> None:
    server.trouble = lambda *_: (200, {"id": "1"})
    with asking(server) as policy:
        [answer] = policy.generate([request()])
    assert answer.error == "the server's answer has no choices in it"


def test_a_server_that_refuses_to_tell_tokens_is_not_asked_for_them_again(server: Server) -> None:
    def trouble(_: int, asked: dict[str, Any]) -> Any:
        said = {"error": {"message": "Unrecognized request argument supplied: return_token_ids"}}
        return (400, said) if "return_token_ids" in asked else None

    server.trouble = trouble
    with asking(server, concurrency=1, max_tokens=None) as policy:
        answers = policy.generate([request(0), request(1)])
    assert [one.finish for one in answers] == ["stop", "stop"]
    assert ["return_token_ids" in one for one in server.asked] == [True, False, False]
    assert not any("max_tokens" in one for one in server.asked)


def test_one_refused_conversation_does_not_end_the_others(server: Server) -> None:
    server.trouble = lambda _, asked: (400, {"error": {"message": "filtered"}}) if asked["seed"] == 1 else None
    with asking(server) as policy:
        policy.generate([request(0)])
        good, bad = policy.generate([request(0, 1), request(1, 1)])
    assert (good.finish, bad.finish) == ("stop", "error")
    assert "filtered" in bad.error
    assert len(server.asked) == 3
    with asking(server) as policy, pytest.raises(PolicyError, match=r"refuses every request \(400\): .*filtered"):
        policy.generate([request(1)])


def test_the_key_is_never_told(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.trouble = lambda *_: (401, {"error": {"message": f"Incorrect API key provided: {KEY}"}})
    with caplog.at_level(logging.DEBUG):
        with asking(server) as policy:
            assert KEY not in repr(policy)
            with pytest.raises(PolicyError, match="refuses every request") as caught:
                policy.generate([request()])
    assert KEY not in f"{caught.value} {caught.value.__cause__} {caplog.text}"
    assert "***" in str(caught.value)
    assert caught.value.__suppress_context__


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="retries must be a whole number"):
        OpenAIPolicy("http://127.0.0.1:9/v1", "m", retries=-1)
    with pytest.raises(ConfigurationError, match="prompts must be one of 'messages', 'tokens'"):
        OpenAIPolicy("http://127.0.0.1:9/v1", "m", prompts="token")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="concurrency"):
        OpenAIPolicy("http://127.0.0.1:9/v1", "m", concurrency=0)


def test_tokens_need_a_tokenizer(server: Server) -> None:
    with (
        asking(server, prompts="tokens") as policy,
        pytest.raises(PolicyError, match="needs a collector with a tokenizer"),
    ):
        policy.generate([request()])
