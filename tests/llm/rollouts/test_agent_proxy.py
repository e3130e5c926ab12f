"""A trainer's view: one call, in workers or not."""

from __future__ import annotations

import copy
import errno
import os
from collections import UserDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from shoal import ConfigurationError, StateError
from shoal.llm import LLMAgentProxy, RolloutBatch, ScriptedPolicy, SolverPolicy
from shoal.vector.backends import launch
from tests.llm.rollouts.worlds import RandomPolicy

CONFIG: dict[str, Any] = yaml.safe_load("""
es_manager:
  train:
    env_groups: 4        # Number of environment groups
    group_size: 3        # Environments per group
    env_configs:
      tags: ["SokobanEnv"]
      n_groups: [4]
  val:
    env_groups: 2
    group_size: 1
    env_configs:
      tags: ["SokobanEnv"]
      n_groups: [2]
  max_workers: 2

custom_envs:
  SokobanEnv:
    env_type: sokoban
    max_actions_per_traj: 50
    env_config:
      dim_room: [6, 6]
      num_boxes: 1
      max_steps: 100
      search_depth: 30

env: {max_steps: 5}
""")


def records(data: RolloutBatch) -> list[dict[str, Any]]:
    return [one.to_json() for one in data.records]


def test_a_rollout_for_training_and_one_for_validation() -> None:
    with LLMAgentProxy({**CONFIG, "env": {"max_steps": 60}}, SolverPolicy()) as agent:
        assert agent.parallel_envs == (agent.train_parallel_envs, agent.val_parallel_envs)
        assert agent.traj_collector is not None
        train, val, again = (
            agent.rollout({}),
            agent.rollout({"meta_info": {"step": 7}}, val=True),
            agent.rollout(val=True),
        )
        next_one = agent.rollout()
    assert [one.seed for one in train.records] == [42] * 3 + [43] * 3 + [44] * 3 + [45] * 3
    assert [one.seed for one in next_one.records[::3]] == [46, 47, 48, 49]
    assert [one.seed for one in val.records] == [one.seed for one in again.records] == [1042, 1043]
    assert train.meta_info["metrics"]["SokobanEnv"]["success"] == 1.0
    assert val.meta_info["step"] == 7
    assert len(train) == 12


def test_all_that_a_trainer_may_hand_over() -> None:
    proto = SimpleNamespace(batch={}, non_tensor_batch={"seeds": np.array([1, 2, 3, 4])}, meta_info={"eos": 2})
    with LLMAgentProxy({**CONFIG, "use_parallel_envs": False}, ScriptedPolicy(["<action>up</action>"])) as agent:
        first = agent.rollout(proto)
        for same in (first, first.records, {"seeds": [1, 2, 3, 4]}, UserDict(seeds=[1, 2, 3, 4])):
            assert records(agent.rollout(same)) == records(first)
    assert first.meta_info["eos"] == 2
    assert [one.seed for one in first.records[::3]] == [1, 2, 3, 4]


def test_the_same_results_with_and_without_workers() -> None:
    results = []
    for config in (CONFIG, {**CONFIG, "use_parallel_envs": False}):
        with LLMAgentProxy(config, RandomPolicy(seconds=0.001)) as agent:
            assert hasattr(agent, "parallel_envs") == (config is CONFIG)
            results.append([records(agent.rollout()), records(agent.rollout(val=True))])
    assert results[0] == results[1]


def test_the_path_of_a_file_is_a_config(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**CONFIG, "use_parallel_envs": False}))
    with LLMAgentProxy(str(path), RandomPolicy()) as agent:
        assert len(agent.rollout()) == 12


def refuse(*_: Any) -> None:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def test_without_workers_the_fallback_is_announced_and_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    config = copy.deepcopy(CONFIG)
    with LLMAgentProxy(config, RandomPolicy()) as agent:
        expected = records(agent.rollout())
    with monkeypatch.context() as patch:
        patch.setattr(launch.NurseryLauncher, "launch", refuse)
        with pytest.warns(RuntimeWarning) as caught:
            agent = LLMAgentProxy(config, RandomPolicy())
    [warning] = [str(one.message) for one in caught]
    assert warning.startswith("Failed to initialize parallel environments: ")
    assert warning.endswith("\nFalling back to original environment system")
    with agent:
        assert not hasattr(agent, "parallel_envs")
        assert records(agent.rollout()) == expected


def test_a_wrong_config_is_no_reason_to_fall_back() -> None:
    config = copy.deepcopy(CONFIG)
    config["custom_envs"]["SokobanEnv"]["env_type"] = "sokobn"
    with pytest.raises(ConfigurationError, match="Did you mean 'sokoban'"):
        LLMAgentProxy(config, RandomPolicy())


def test_a_closed_agent_says_so() -> None:
    agent = LLMAgentProxy({**CONFIG, "use_parallel_envs": False}, RandomPolicy())
    agent.close()
    with pytest.raises(StateError, match="the agent was closed"):
        agent.rollout()
