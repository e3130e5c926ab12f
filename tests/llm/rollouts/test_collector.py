"""Rollouts: the same trajectories in lockstep and first-ready, whatever fails."""

from __future__ import annotations

import copy
import logging
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shoal import ConfigurationError
from shoal.llm import (
    ConcurrentPolicy,
    Generation,
    PolicyError,
    RecordedPolicy,
    RecordingPolicy,
    Request,
    RolloutBatch,
    ScriptedPolicy,
    SolverPolicy,
    Status,
    TrajectoryCollector,
    TrajectoryRecord,
)
from tests.llm.rollouts.worlds import RandomPolicy, managed

MORE = ("more", "less")


def collected(
    policy: Any, settings: Any = None, gen_batch: Any = None, *, is_train: bool = True, **worlds: Any
) -> RolloutBatch:
    with managed(**worlds) as envs:
        return TrajectoryCollector(settings or {}).multi_turn_loop(gen_batch, policy, envs, is_train)


def sameness(records: list[TrajectoryRecord]) -> list[dict[str, Any]]:
    return [record.to_json() for record in records]


# -- the loops -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", ["full", "limited_multi_turn", "single_turn"])
def test_first_ready_and_lockstep_give_the_same_trajectories(window: str) -> None:
    results = []
    for mode, parallel in (("lockstep", False), ("first_ready", False), ("lockstep", True), ("first_ready", True)):
        config = {"rollout": {"mode": mode}, "agent_proxy": {"context_window_mode": window}, "env": {"max_steps": 8}}
        with RandomPolicy(seconds=0.001) as policy:
            results.append(sameness(collected(policy, config, parallel=parallel, groups=4, size=3).records))
    assert results[0] == results[1] == results[2] == results[3]
    assert len({len(record["turns"]) for record in results[0]}) > 1


def test_members_of_a_group_have_the_same_task_and_sample_differently() -> None:
    with RandomPolicy() as policy:
        records = collected(policy, {"env": {"max_steps": 4}}, groups=2, size=4).records
    assert [(one.group, one.member) for one in records] == [
        (group, member) for group in range(2) for member in range(4)
    ]
    for group in (records[:4], records[4:]):
        assert len({one.turns[0].state for one in group}) == 1
        assert len({one.turns[0].completion for one in group}) > 1


def test_who_has_finished_costs_nothing() -> None:
    with RandomPolicy() as policy:
        data = collected(policy, {"env": {"max_steps": 12}}, groups=3, size=4)
        asked = list(policy.asked)
    assert len(asked) == len(set(asked)) == sum(len(one.turns) for one in data.records)


@pytest.mark.parametrize("parallel", [False, True])
def test_the_solver_solves(parallel: bool) -> None:
    with SolverPolicy() as policy:
        data = collected(policy, parallel=parallel)
        assert not policy._copies
    assert all(one.success and one.status is Status.OK for one in data.records)
    metrics = data.meta_info["metrics"]["sokoban"]
    assert (metrics["success"], metrics["pass@2"], metrics["valid_actions"]) == (1.0, 1.0, 1.0)
    assert metrics["status"] == {"ok": 6}


def test_several_actions_in_a_turn() -> None:
    config = {"agent_proxy": {"max_actions_per_turn": 3, "max_turn": 30}}
    with SolverPolicy(actions_per_turn=3) as policy:
        several = collected(policy, config)
    with SolverPolicy() as policy:
        single = collected(policy)
    for one, other in zip(several.records, single.records, strict=True):
        assert [action for turn in one.turns for action in turn.actions] == [turn.actions[0] for turn in other.turns]
        assert len(one.turns) == -(-len(other.turns) // 3)
    assert (
        "You may give up to 3 actions at once, with || between them."
        in several.records[0].turns[0].messages[0]["content"]
    )
    data = collected(ScriptedPolicy(["<answer>Up || Sideways || Down</answer>"]), {**config, "env": {"max_steps": 1}})
    turn = data.records[0].turns[0]
    assert turn.actions == [1, 2]
    assert (turn.is_valid, turn.penalty) == (False, 0.1)


def test_a_text_that_is_no_action_leaves_the_world_as_it_is_and_costs() -> None:
    data = collected(
        ScriptedPolicy(["nothing", "<action>up</action>"]),
        {"agent_proxy": {"max_turn": 2, "context_window_mode": "full"}},
    )
    for record in data.records:
        first, second = record.turns
        assert (first.actions, first.status, first.penalty, first.reward) == ([], Status.PARSE_ERROR, 0.1, 0.0)
        assert first.state == second.state
        assert second.messages[0]["content"].startswith(
            "Reward: -0.1\nNot all of your answer was an action: there is no"
        )
        assert record.status is Status.TRUNCATED
        assert record.episode_return == pytest.approx(-0.1 + second.reward)


def test_limits_of_turns_and_actions_end_a_trajectory() -> None:
    policy = ScriptedPolicy(["<action>more</action>"])
    config: dict[str, Any] = {"custom_envs": {"counter": {"max_actions_per_traj": 2}}}
    by_actions = collected(policy, config, env_type="counter")
    by_turns = collected(policy, {"agent_proxy": {"max_turn": 3}}, env_type="counter")
    assert {(one.status, len(one.turns), one.success) for one in by_actions.records} == {(Status.TRUNCATED, 2, False)}
    assert {(one.status, len(one.turns), one.success) for one in by_turns.records} == {(Status.TRUNCATED, 3, False)}


def test_tasks_go_on_where_the_last_rollout_ended_unless_they_are_given() -> None:
    policy = ScriptedPolicy(["<action>more</action>"])
    with managed("counter", groups=2, size=2) as envs:
        collector = TrajectoryCollector({})
        seeds = [
            [one.seed for one in collector.multi_turn_loop(given, policy, envs).records]
            for given in (
                None,
                {},
                {"seeds": [70, 80]},
                SimpleNamespace(non_tensor_batch={"seeds": np.array([7, 7, 8, 8])}),
                None,
            )
        ]
    assert seeds == [[5, 5, 6, 6], [7, 7, 8, 8], [70, 70, 80, 80], [7, 7, 8, 8], [9, 9, 10, 10]]


def test_wrong_seeds_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="seeds must be 3 whole numbers of at least 0, one for each group"):
        collected(ScriptedPolicy(["x"]), gen_batch={"seeds": [1, 2]})


def test_a_manager_can_be_used_by_hand_before_and_after() -> None:
    with managed(parallel=True) as envs:
        envs.reset()
        envs.step(["<action>up</action>"] * 6)
        with SolverPolicy() as policy:
            assert all(one.success for one in TrajectoryCollector({}).multi_turn_loop(None, policy, envs).records)
        with pytest.raises(Exception, match="call reset"):
            envs.step(["<action>up</action>"] * 6)
        obs, _ = envs.reset()
        assert "Previous Actions" not in obs["text"][0]


def test_every_turn_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "shoal.llm"):
        data = collected(ScriptedPolicy(["<action>more</action>", "what?"]), env_type="counter")
    lines = [
        record.message for record in caplog.records if record.name == "shoal.llm.rollout" and " turn " in record.message
    ]
    assert len(lines) == sum(len(one.turns) for one in data.records)
    assert "environment 2, group 1, turn 0: raw='<action>more</action>' action=[1] reward=1 status=ok" in lines
    assert any("raw='what?' action=[] reward=-0.1 status=parse_error" in line for line in lines)


# -- repeating -----------------------------------------------------------------------------------------------------------


def test_a_recorded_rollout_can_be_repeated_without_its_policy(tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    config: dict[str, Any] = {"env": {"max_steps": 5}}
    with RecordingPolicy(RandomPolicy(seconds=0.001), path) as policy:
        first = collected(policy, config, parallel=True).records
    again = collected(RecordedPolicy(path), {**config, "rollout": {"mode": "lockstep"}}).records
    assert sameness(first) == sameness(again)


def test_another_seed_samples_other_texts() -> None:
    texts = []
    for seed in (0, 0, 1):
        with RandomPolicy() as policy:
            data = collected(policy, {"rollout": {"seed": seed}, "env": {"max_steps": 2}})
        texts.append([turn.completion for one in data.records for turn in one.turns])
    assert texts[0] == texts[1] != texts[2]


# -- dynamic sampling ----------------------------------------------------------------------------------------------------

FILTERED = {"algorithm": {"filter_groups": {"enable": True, "max_num_gen_batches": 4}}, "env": {"max_steps": 3}}


def sometimes(requests: list[Request]) -> list[str]:
    """Members of groups with an odd task differ; of others they do not."""
    return [f"<action>{'more' if one.key[0] % 2 and one.key[3] else 'less'}</action>" for one in requests]


@pytest.mark.parametrize("mode", ["lockstep", "first_ready"])
def test_only_groups_of_no_use_are_played_again(mode: str) -> None:
    data = collected(sometimes, {**FILTERED, "rollout": {"mode": mode}}, env_type="counter", groups=4, seed=10)
    rounds = [one.round for one in data.records[::2]]
    seeds = [one.seed for one in data.records[::2]]
    assert seeds[1::2] == [11, 13]
    assert rounds[1::2] == [0, 0]
    assert all(one.seed is not None and one.seed % 2 for one in data.records) or data.meta_info["uninformative_groups"]
    waste = data.meta_info["waste"]
    assert waste["groups"] == sum(rounds)
    assert waste["trajectories"] == 2 * waste["groups"]
    assert waste["turns"] == 3 * waste["trajectories"]
    assert data.meta_info["rounds"] == max(rounds) + 1 <= 4


def test_after_so_many_tries_what_there_is_is_kept() -> None:
    policy = ScriptedPolicy(["<action>more</action>"])
    data = collected(policy, FILTERED, env_type="counter")
    assert [one.round for one in data.records] == [3] * 6
    assert data.meta_info["uninformative_groups"] == 3
    assert data.meta_info["waste"]["groups"] == 9


def test_validation_is_never_filtered() -> None:
    data = collected(ScriptedPolicy(["<action>more</action>"]), FILTERED, is_train=False, env_type="counter")
    assert [one.round for one in data.records] == [0] * 6


def test_dynamic_sampling_is_the_same_in_both_modes() -> None:
    results = []
    for mode in ("lockstep", "first_ready"):
        with RandomPolicy(MORE, seconds=0.001) as policy:
            data = collected(
                policy, {**FILTERED, "rollout": {"mode": mode}}, env_type="counter", groups=5, parallel=True
            )
            results.append((sameness(data.records), data.meta_info["waste"]))
    assert results[0] == results[1]


# -- what fails ----------------------------------------------------------------------------------------------------------


def test_a_failed_trajectory_is_no_success_with_a_reward_of_zero() -> None:
    config = {"raises_at": 2, "share": 0.4}
    worlds: dict[str, Any] = {"env_type": "counter", "config": config, "noise": "independent", "size": 4}
    data = collected(ScriptedPolicy(["<action>more</action>"]), **worlds)
    failed = [one.status is Status.ENV_ERROR for one in data.records]
    assert 0 < sum(failed) < len(failed)
    others = data.non_tensor_batch
    assert np.isnan(others["episode_rewards"]).tolist() == failed
    assert np.isnan(others["success"]).tolist() == failed
    assert (~others["is_valid"]).tolist() == failed
    assert set(others["group_baselines"][~np.isnan(others["group_baselines"])]) == {4.0}
    metrics = data.meta_info["metrics"]["counter"]
    assert metrics["status"] == {"ok": failed.count(False), "env_error": failed.count(True)}
    assert (metrics["success"], metrics["return"]) == (1.0, 4.0)
    assert "the counter is broken" in next(one.error for one in data.records if one.has_failed)


def test_a_failed_trajectory_is_begun_again_if_that_is_wished() -> None:
    calls: dict[Any, int] = {}

    def once(request: Request) -> Generation:
        calls[request.key[0], request.key[2:4], request.turn] = (
            calls.get((request.key[0], request.key[2:4], request.turn), 0) + 1
        )
        is_first = request.key[4] == 0 and request.turn == 1 and request.key[3] == 0
        return Generation("", finish="error", error="away") if is_first else Generation("<action>more</action>")

    class Once(ConcurrentPolicy):
        def answer_one(self, request: Request) -> Generation:
            return once(request)

    with Once(2) as policy:
        data = collected(policy, {"rollout": {"on_failure": "replace"}}, env_type="counter")
    assert [one.attempt for one in data.records] == [1, 0] * 3
    assert all(one.status is Status.OK for one in data.records)
    assert data.meta_info["waste"]["trajectories"] == 3
    with Once(2) as policy:
        data = collected(policy, env_type="counter")
    assert [one.status for one in data.records] == [Status.POLICY_ERROR, Status.OK] * 3
    assert data.records[0].error == "away"


@pytest.mark.parametrize("mode", ["first_ready", "lockstep"])
def test_a_straggler_is_cut_at_its_deadline_or_begun_again(mode: str) -> None:
    over = threading.Event()

    class Slow(ConcurrentPolicy):
        def answer_one(self, request: Request) -> Generation:
            if request.key[3] == 0 and request.turn == 1 and request.key[4] == 0:
                over.wait(60)
            return Generation("<action>more</action>")

    on_failure = "mask" if mode == "first_ready" else "replace"
    settings = {"rollout": {"turn_timeout": 2.0, "mode": mode, "on_failure": on_failure}}
    with Slow(concurrency=9) as policy:
        data = collected(policy, settings, env_type="counter")
        over.set()
    if on_failure == "mask":
        assert [one.status for one in data.records] == [Status.TIMEOUT, Status.OK] * 3
        assert data.records[0].error == "no answer in 2 seconds"
    else:
        assert [(one.status, one.attempt) for one in data.records] == [(Status.OK, 1), (Status.OK, 0)] * 3


def test_a_local_model_does_not_wait_for_a_slow_world() -> None:
    sizes = []

    def say(requests: list[Request]) -> list[str]:
        sizes.append(len(requests))
        return ["<action>more</action>"] * len(requests)

    worlds: dict[str, Any] = {
        "config": {"seconds": 1.0, "share": 0.08},
        "noise": "independent",
        "size": 4,
        "parallel": True,
    }
    data = collected(say, env_type="counter", **worlds)
    assert {len(one.turns) for one in data.records} == {4}
    assert min(sizes) < 12  # if all waited for the slowest, all would be in each batch


def test_killed_workers_repeat_no_turn_and_lose_no_group(tmp_path: Path) -> None:
    worlds: dict[str, Any] = {"env_type": "counter", "groups": 8, "size": 8, "noise": "independent"}
    config = {"dies_at": 3, "share": 0.05, "folder": str(tmp_path)}
    with RandomPolicy(MORE) as policy:
        with managed(**worlds, config={}) as envs:
            whole = TrajectoryCollector({}).multi_turn_loop(None, policy, envs).records
    with RandomPolicy(MORE) as policy, managed(**worlds, config=config, parallel=True) as envs:
        data = TrajectoryCollector({}).multi_turn_loop(None, policy, envs)
        restarts = envs.envs.stats.restarts
        asked = list(policy.asked)
    assert len(list(tmp_path.iterdir())) >= 1
    assert restarts >= 1
    assert len(asked) == len(set(asked)) == sum(len(one.turns) for one in data.records)
    assert all(one.status is Status.OK for one in data.records)
    assert len(data.records) == 64
    assert [one.episode_return for one in data.records] == [one.episode_return for one in whole]


def test_a_policy_that_cannot_answer_ends_the_rollout_and_leaves_nothing_under_way() -> None:
    def broken(requests: list[Request]) -> list[str]:
        if requests[0].turn == 1:
            raise PolicyError("the model is gone")
        return ["<action>more</action>"] * len(requests)

    with managed("counter", parallel=True) as envs:
        with pytest.raises(PolicyError, match="the model is gone"):
            TrajectoryCollector({}).multi_turn_loop(None, broken, envs)
        data = TrajectoryCollector({}).multi_turn_loop(None, ScriptedPolicy(["<action>more</action>"]), envs)
    assert all(one.success for one in data.records)


def test_a_policy_that_answers_nothing_is_an_error() -> None:
    class Silent(RandomPolicy):
        def ready(self, timeout: float | None = None) -> list[Any]:
            return []

    with Silent() as policy, pytest.raises(PolicyError, match="the policy has not answered"):
        collected(policy, env_type="counter", groups=1, size=1)


# -- settings ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rollout": {"mode": "lock"}}, "rollout.mode must be one of 'first_ready', 'lockstep', got 'lock'"),
        ({"agent_proxy": {"context_window_mode": "ful"}}, "agent_proxy.context_window_mode must be one of"),
        ({"agent_proxy": {"max_turn": 0}}, "agent_proxy.max_turn must be a whole number of at least 1, got 0"),
        ({"agent_proxy": {"context_window_mode": "tokens"}}, "is 'tokens', which needs a tokenizer"),
        ({"rollout": {"on_failure": "ignore"}}, "rollout.on_failure must be one of 'mask', 'replace'"),
        ({"rollout": {"seed": -1}}, "rollout.seed must be"),
        ({"algorithm": {"filter_groups": {"enable": 1}}}, "algorithm.filter_groups.enable must be True or False"),
        ({"rollout": {"turn_timeout": -1}}, "rollout.turn_timeout must be"),
    ],
)
def test_wrong_settings_are_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        TrajectoryCollector(copy.deepcopy(change))
