"""Rollouts with real models and servers: tokens, log-probabilities, and what trainers are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
pytest.importorskip("openai")

from shoal.llm import OpenAIPolicy, RolloutBatch, ScriptedPolicy, Status, TrajectoryCollector, TransformersPolicy  # noqa: E402
from tests.llm.policies.server import running_server  # noqa: E402
from tests.llm.policies.tiny_model import tiny_model, tiny_tokenizer  # noqa: E402
from tests.llm.rollouts.tokenizers import TEMPLATES, byte_tokenizer  # noqa: E402
from tests.llm.rollouts.worlds import managed  # noqa: E402

TOKENIZER = tiny_tokenizer()
BYTES = byte_tokenizer(TEMPLATES["chatml"])
MODEL = tiny_model(len(TOKENIZER), positions=512)


def settings(mode: str = "first_ready", window: str = "full", **data: Any) -> dict[str, Any]:
    agent = {"context_window_mode": window, "max_turn": 3}
    return {"rollout": {"mode": mode}, "agent_proxy": agent, "data": {"max_response_length": 6, **data}}


def collected(policy: Any, chosen: dict[str, Any], tokenizer: Any = TOKENIZER, **worlds: Any) -> RolloutBatch:
    with managed(**worlds) as envs:
        return TrajectoryCollector(chosen, tokenizer).multi_turn_loop(None, policy, envs)


@pytest.mark.parametrize("window", ["full", "single_turn", "limited_multi_turn"])
def test_a_local_model_s_tokens_are_what_it_read_and_said(window: str) -> None:
    data = collected(TransformersPolicy(MODEL, TOKENIZER), settings(window=window))
    rows = len(data.batch["input_ids"])
    assert rows == (6 if window == "full" else 18 if window == "single_turn" else rows)
    assert {len(values) for values in (*data.batch.values(), *data.non_tensor_batch.values())} == {rows}
    ids, said = torch.tensor(data.batch["input_ids"]), data.batch["response_mask"].astype(bool)
    with torch.inference_mode():
        logits = MODEL(ids, attention_mask=torch.tensor(data.batch["attention_mask"])).logits[:, :-1]
    logprobs = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])[..., 0].numpy()
    assert said.sum() == sum(len(turn.completion_ids or ()) for one in data.records for turn in one.turns)
    # What was noted while it was sampled is what the model says of the whole sequence: nothing has drifted.
    assert data.batch["logprobs"][:, 1:][said[:, 1:]] == pytest.approx(logprobs[said[:, 1:]], abs=1e-4)
    assert np.isnan(data.batch["logprobs"][~said]).all()
    assert data.meta_info["drift"]["forked"] == 0


def test_both_modes_give_the_same_tokens() -> None:
    one, other = (
        collected(TransformersPolicy(MODEL, TOKENIZER), settings(mode)) for mode in ("lockstep", "first_ready")
    )
    assert (one.batch["input_ids"] == other.batch["input_ids"]).all()
    assert (one.batch["response_mask"] == other.batch["response_mask"]).all()


def test_the_reward_of_a_turn_is_on_its_last_token() -> None:
    data = collected(ScriptedPolicy(["<action>more</action>", "what?"]), settings(), BYTES, env_type="counter")
    for row, record in enumerate(data.records):
        rewards = data.batch["token_rewards"][row]
        assert rewards[rewards != 0].tolist() == pytest.approx([1.0, -0.1, 1.0])
        places = np.flatnonzero(rewards)
        assert data.batch["response_mask"][row][places].all()
        assert not np.append(data.batch["response_mask"][row], 0)[places + 1].any()
        assert rewards.sum() == pytest.approx(record.episode_return)
        said = data.batch["input_ids"][row][data.batch["response_mask"][row] == 1]
        assert BYTES.decode(said.tolist()) == "<action>more</action>what?<action>more</action>"


def test_a_failed_trajectory_has_a_row_without_anything_to_learn() -> None:
    data = collected(
        ScriptedPolicy(["<action>more</action>"]), settings(), BYTES, env_type="counter", config={"raises_at": 2}
    )
    assert {one.status for one in data.records} == {Status.ENV_ERROR}
    assert len(data) == 6
    assert not data.batch["response_mask"].any()
    assert not data.batch["token_rewards"].any()
    assert np.isnan(data.non_tensor_batch["episode_rewards"]).all()


def test_a_conversation_that_becomes_too_long_is_a_status() -> None:
    data = collected(
        ScriptedPolicy(["<action>more</action>"]), settings(max_prompt_length=250), BYTES, env_type="counter"
    )
    assert {one.status for one in data.records} == {Status.CONTEXT_OVERFLOW}
    assert {len(one.turns) for one in data.records} <= {1, 2}
    assert "and data.max_prompt_length is 250" in data.records[0].error
    windowed = collected(
        ScriptedPolicy(["<action>more</action>"]),
        settings(window="tokens", max_prompt_length=250),
        BYTES,
        env_type="counter",
    )
    assert {(one.status, len(one.turns)) for one in windowed.records} == {(Status.TRUNCATED, 3)}
    short = TransformersPolicy(tiny_model(len(TOKENIZER), positions=40), TOKENIZER)
    assert {one.status for one in collected(short, settings()).records} == {Status.CONTEXT_OVERFLOW}


@pytest.mark.parametrize("parallel", [False, True])
def test_a_server_is_asked_and_gives_the_same_in_both_modes(parallel: bool) -> None:
    results = []
    for mode in ("lockstep", "first_ready"):
        with running_server() as server, OpenAIPolicy(server.url, concurrency=8) as policy:
            data = collected(policy, settings(mode), None, parallel=parallel)
            assert len(server.asked) == sum(len(one.turns) for one in data.records)
            assert all(one["max_tokens"] == 6 for one in server.asked)
        results.append([one.to_json() for one in data.records])
    assert results[0] == results[1]
    assert len({turn["completion"] for one in results[0] for turn in one["turns"]}) > 3


def test_what_a_server_says_that_it_read_is_what_is_trained_on() -> None:
    with running_server() as server, OpenAIPolicy(server.url, logprobs=True) as policy:
        data = collected(policy, settings(), BYTES, groups=1, size=1)
    [record] = data.records
    assert [turn.prompt_ids for turn in record.turns] == [[1, 2, 3]] * 3  # it says so each time
    assert [turn.logprobs for turn in record.turns] == [[-0.5, -0.25, -0.125]] * 3
    assert len(data) == 3
    assert data.meta_info["drift"]["forked"] == 2


def test_prompts_as_arrays() -> None:
    with managed() as envs:
        collector = TrajectoryCollector(settings(max_prompt_length=200), TOKENIZER)
        obs, _ = envs.reset()
        batch = collector.preprocess_batch({"meta_info": {"step": 3}}, obs)
        sample = collector.preprocess_single_sample(2, None, obs)
        texts = TrajectoryCollector({}).preprocess_batch(None, obs)
    assert batch.meta_info == {"step": 3}
    assert batch.batch["input_ids"].shape == (6, 200)
    assert len(batch) == len(texts) == 6
    assert (batch.batch["input_ids"][2] == sample["input_ids"]).all()
    length = len(sample["raw_prompt_ids"])
    assert sample["input_ids"][-length:].tolist() == sample["raw_prompt_ids"]
    assert sample["attention_mask"].tolist() == [0] * (200 - length) + [1] * length
    assert sample["position_ids"][-1] == length - 1
    assert sample["raw_prompt"] == [{"role": "user", "content": obs["text"][2]}]
    assert sample["anchor_obs"] == obs["anchor"][2]
    assert texts.batch == {}


def test_a_processor_brings_its_tokenizer() -> None:
    class Processor:
        tokenizer = TOKENIZER

    assert TrajectoryCollector({}, None, Processor()).tokenizer is TOKENIZER
