"""A local model answers the same whoever is in its batch, and tells how likely each token was."""

from __future__ import annotations

import math
from typing import Any

import pytest

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from shoal import ConfigurationError  # noqa: E402
from shoal.llm import PolicyError, Request, TransformersPolicy  # noqa: E402
from tests.llm.policies.tiny_model import tiny_model, tiny_tokenizer  # noqa: E402

TOKENIZER = tiny_tokenizer()
MODEL = tiny_model(len(TOKENIZER))


def request(member: int, words: str = "P _ O", **more: Any) -> Request:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": words}], "seed": member, **more}
    return Request((0, 0, member, 0), 0, **asked)


REQUESTS = [request(member, "P " * (1 + member % 5) + "_ X") for member in range(12)]


def test_an_answer_does_not_depend_on_its_batch() -> None:
    together = TransformersPolicy(MODEL, TOKENIZER, max_tokens=8).generate(REQUESTS)
    in_threes = TransformersPolicy(MODEL, TOKENIZER, max_tokens=8, batch_size=3).generate(REQUESTS[::-1])[::-1]
    assert [one.token_ids for one in together] == [one.token_ids for one in in_threes]
    assert len({one.text for one in together}) > 6
    for one, other in zip(together, in_threes, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_logprobs_are_those_of_the_model() -> None:
    policy = TransformersPolicy(MODEL, TOKENIZER, max_tokens=6, temperature=0.7)
    for answer in policy.generate(REQUESTS[:4]):
        assert answer.prompt_ids is not None
        assert answer.token_ids is not None
        assert answer.logprobs is not None
        ids = torch.tensor([[*answer.prompt_ids, *answer.token_ids]])
        with torch.inference_mode():
            logits = MODEL(ids).logits[0, len(answer.prompt_ids) - 1 : -1] / 0.7
        expected = torch.log_softmax(logits, -1)[range(len(answer.token_ids)), list(answer.token_ids)]
        assert answer.logprobs == pytest.approx(expected.tolist(), abs=1e-4)


def test_sampling_follows_the_probabilities() -> None:
    policy = TransformersPolicy(MODEL, TOKENIZER, max_tokens=1, batch_size=500)
    answers = policy.generate([request(member) for member in range(2000)])
    said = [one.token_ids[0] for one in answers if one.token_ids]
    probabilities = {one.token_ids[0]: math.exp(one.logprobs[0]) for one in answers if one.token_ids and one.logprobs}
    for token, probability in probabilities.items():
        spread = math.sqrt(probability * (1 - probability) / 2000)
        assert abs(said.count(token) / 2000 - probability) < 5 * spread


def test_without_temperature_the_most_likely_token_is_said() -> None:
    policy = TransformersPolicy(MODEL, TOKENIZER, max_tokens=5, temperature=0.0)
    first, second = policy.generate([request(1), request(2)])
    ids = TOKENIZER("<user> P _ O <eos> <assistant>", return_tensors="pt")["input_ids"]
    expected = MODEL.generate(ids, max_new_tokens=5, do_sample=False, attention_mask=torch.ones_like(ids))
    assert first.token_ids == second.token_ids
    assert list(first.token_ids or ()) == expected[0, ids.shape[1] :].tolist()


def test_each_answer_has_its_own_limit() -> None:
    policy = TransformersPolicy(MODEL, TOKENIZER, max_tokens=9)
    short, long = policy.generate([request(1, max_tokens=2), request(2, seed=1)])
    assert short.finish == "length"
    assert len(short.token_ids or ()) == 2
    assert (long.token_ids or ())[:2] == short.token_ids


def test_a_conversation_that_is_too_long_is_a_status() -> None:
    policy = TransformersPolicy(MODEL, TOKENIZER, max_tokens=8)
    fits, does_not = policy.generate([request(0), request(1, "P " * 125)])
    assert fits.finish in ("stop", "length")
    assert (does_not.finish, does_not.error) == ("overflow", "the model reads 128 tokens")


def test_given_tokens_are_what_is_read() -> None:
    [answer] = TransformersPolicy(MODEL, TOKENIZER, max_tokens=3).generate([request(0, prompt_ids=(2, 11, 12, 1, 3))])
    assert answer.prompt_ids == (2, 11, 12, 1, 3)


def test_what_is_missing_is_said() -> None:
    with pytest.raises(ConfigurationError, match="needs its tokenizer"):
        TransformersPolicy(MODEL)
    with pytest.raises(ConfigurationError, match="temperature must be at least 0"):
        TransformersPolicy(MODEL, TOKENIZER, temperature=-1)
    without = tiny_tokenizer()
    without.chat_template = None
    with pytest.raises(PolicyError, match="no chat template"):
        TransformersPolicy(MODEL, without).generate([request(0)])
