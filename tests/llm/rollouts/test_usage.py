"""The usage examples that trainers were written by, from config to trajectories."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest
import yaml

from shoal.llm import (
    LLMAgentProxy,
    MultiProcessEnvironmentContainer,
    SolverPolicy,
    TrajectoryCollector,
    create_projection_function,
    make_environments,
)
from tests.llm.rollouts.worlds import RandomPolicy

CONFIG = """
es_manager:
  train:
    env_groups: 4        # Number of environment groups
    group_size: 3        # Environments per group
    env_configs:
      tags: ["SokobanEnv"]
      n_groups: [1]
  val:
    env_groups: 2
    group_size: 1
    env_configs:
      tags: ["SokobanEnv"]
      n_groups: [1]

custom_envs:
  SokobanEnv:
    env_type: sokoban
    max_actions_per_traj: 50
    env_config:
      dim_room: [6, 6]
      num_boxes: 1
      max_steps: 100
      search_depth: 30

algorithm:
  filter_groups:
    enable: true
    max_num_gen_batches: 10

agent_proxy:
  reward_normalization:
    grouping: "state"     # "state", "inductive", "batch"
    method: "mean_std"    # "mean_std", "mean", "asym_clip", "identity"
"""


def config(**more: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(CONFIG)
    return {**loaded, **more}


def test_the_container() -> None:
    container = MultiProcessEnvironmentContainer(
        env_type="sokoban", env_num=4, group_n=3, seed=42, env_kwargs={"dim_room": (6, 6), "num_boxes": 1}
    )
    obs_list, info_list = container.reset()
    assert len(obs_list) == len(info_list) == 12
    for group in range(4):
        assert len(set(obs_list[3 * group : 3 * group + 3])) == 1
    actions = [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4]
    obs_list, rewards, dones, infos = container.step(actions)
    assert len(obs_list) == len(rewards) == len(dones) == len(infos) == 12
    container.close()


def test_the_projection() -> None:
    projection_f = create_projection_function("sokoban")
    actions, valids = projection_f(["<action>up</action>", "<action>down</action>"])
    assert (actions, valids) == ([1, 2], [True, True])


def test_from_a_config_to_environments_and_a_collector() -> None:
    with pytest.warns(RuntimeWarning, match="n_groups is .1., but env_groups is"):
        train, val = make_environments(config(use_parallel_envs=False))
    collector = TrajectoryCollector(config(), tokenizer=None)
    with train, val, SolverPolicy() as policy:
        data = collector.multi_turn_loop(gen_batch={}, actor_rollout_wg=policy, envs=val, is_train=False)
    assert [record.group for record in data.records] == [0, 1]
    assert data.meta_info["metrics"]["SokobanEnv"]["success"] == 1.0


def test_the_agent_with_dynamic_sampling_and_debug_logging(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("shoal.llm.rollout")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about n_groups, as above
        agent = LLMAgentProxy(config(), RandomPolicy())
    with agent, caplog.at_level(logging.DEBUG):
        assert hasattr(agent, "parallel_envs")
        assert hasattr(agent, "traj_collector")
        data = agent.rollout({}, val=False)
    assert len(data.records) == 12
    assert data.meta_info["uninformative_groups"] == 0
    assert any("environment 0, group 0, turn 0: raw=" in record.message for record in caplog.records)
