"""MetaMathQA is asked and answered by the managers, as the other worlds are."""

from __future__ import annotations

from shoal.envs.texts.math_rows import answer_in
from shoal.envs.texts.word_problems import made_problem
from shoal.llm import (
    EnvStateManager,
    MetaMathQAEnvironmentManager,
    create_single_environment_for_testing,
    get_environment_requirements,
)
from tests.llm.worlds import config_of


def test_a_manager_asks_and_reads_the_answer() -> None:
    with create_single_environment_for_testing("metamathqa", seed=5) as manager:
        assert isinstance(manager, MetaMathQAEnvironmentManager)
        (prompt,) = manager.reset()[0]["text"]
        assert "give the final answer alone" in prompt
        assert "<action>42</action>" in prompt
        shown, rewards, dones, _ = manager.step(["<action>-1</action>"])
        assert "Incorrect. Please think again." in shown["text"][0]
        assert "Action: -1" in shown["text"][0]
        assert (rewards.tolist(), dones.tolist()) == ([0.0], [False])
        question = next(line for line in prompt.splitlines() if line.endswith("?"))
        answer = next(
            answer_in(problem.response)
            for seed in range(100)
            if (problem := made_problem(seed, "train")).query == question
        )
        _, rewards, dones, infos = manager.step([f"<think>-1?</think><action>The answer is {answer}.</action>"])
        assert (rewards.tolist(), dones.tolist()) == ([0.5], [True])
        assert infos[0]["success"]
        assert infos[0]["is_action_valid"]


def test_an_episode_of_the_state_manager_has_as_many_answers_as_its_config_says() -> None:
    with EnvStateManager(config_of("Maths", groups=1, size=2, use_multiprocessing=False)) as manager:
        caches = manager.reset(3)
        assert len(caches) == 2
        assert caches[0]["history"][0]["state"] == caches[1]["history"][0]["state"], "members share the question"
        for _ in range(2):
            assert caches
            caches = manager.step(
                [
                    {"env_id": one["env_id"], "actions": ["-1"], "llm_response": "-1", "llm_raw_response": "-1"}
                    for one in caches
                ]
            )
        assert not caches


def test_what_it_needs_is_known() -> None:
    needs = get_environment_requirements("metamathqa")
    assert needs["packages"] == ["shoal[llm,text]"]
    assert needs["config"]["split"] == "train"
    assert needs["config"]["dataset_path"] is None
