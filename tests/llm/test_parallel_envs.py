"""``python test_parallel_envs.py``: containers, environment managers, projection functions and the factory.

Runs by itself, wherever Shoal is installed, and under pytest.
"""

from __future__ import annotations

import warnings

import yaml

from shoal.llm import (
    REGISTERED_ENVS,
    MultiProcessEnvironmentContainer,
    SokobanEnvironmentManager,
    create_projection_function,
    create_single_environment_for_testing,
    make_environments,
)

CONFIG = yaml.safe_load(
    """
    # In your config file
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
    """
)


def test_container() -> None:
    container = MultiProcessEnvironmentContainer(
        env_type='sokoban',
        env_num=4,      # Number of environment groups
        group_n=3,      # Environments per group
        seed=42,
        env_kwargs={'dim_room': (6, 6), 'num_boxes': 1}
    )  # fmt: skip

    # Reset all environments
    obs_list, info_list = container.reset()

    # Execute actions in parallel
    actions = [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4]  # 12 actions for 12 envs
    first = obs_list
    obs_list, rewards, dones, infos = container.step(actions)

    # Cleanup
    container.close()

    assert container.num_processes == len(info_list) == len(obs_list) == len(rewards) == len(dones) == len(infos) == 12
    for group in range(4):
        assert len(set(first[3 * group : 3 * group + 3])) == 1
    assert len(set(first)) == 4


def test_groups_of_a_container_with_defaults() -> None:
    # 4 groups x 3 environments = 12 total environments
    # Groups: [0,1,2], [3,4,5], [6,7,8], [9,10,11]
    container = MultiProcessEnvironmentContainer(
        env_type='sokoban',
        env_num=4,      # Number of groups
        group_n=3,      # Environments per group
        seed=42
    )  # fmt: skip
    assert len(container.reset()[0]) == 12
    container.close()


def test_environment_manager() -> None:
    envs = MultiProcessEnvironmentContainer("sokoban", 2, 2, 0, {"num_boxes": 1, "search_depth": 20})
    manager = SokobanEnvironmentManager(envs, create_projection_function("sokoban"), "sokoban")
    observations, infos = manager.reset()
    assert set(observations) == {"text", "image", "anchor"}
    assert len(observations["text"]) == len(infos) == 4
    texts = ["<think>hm</think><action>up</action>", "<action>left</action>", "left", "<action>jump</action>"]
    observations, rewards, dones, infos = manager.step(texts)
    assert rewards.shape == dones.shape == (4,)
    assert [info["is_action_valid"] for info in infos] == [True, True, False, False]
    assert all("Previous Actions:" in text for text in observations["text"])
    manager.close()


def test_projection_functions() -> None:
    # Create projection function for Sokoban
    projection_f = create_projection_function('sokoban')  # fmt: skip

    # Convert LLM text to actions
    text_actions = ["<action>up</action>", "<action>down</action>"]
    actions, valids = projection_f(text_actions)
    # actions: [1, 2], valids: [True, True]
    assert (actions, valids) == ([1, 2], [True, True])

    assert create_projection_function("frozen_lake")(["<action>right</action>"]) == ([3], [True])
    assert create_projection_function("bandit")(["<answer>dragon</answer>"]) == (["dragon"], [True])
    assert create_projection_function("countdown")(["<answer>(1 + 2) * 3</answer>"]) == (["(1 + 2) * 3"], [True])
    assert create_projection_function("webshop")(["<action>search[red shoes]</action>"])[1] == [True]
    assert create_projection_function("metamathqa")(["<answer>42</answer>"]) == (["42"], [True])
    assert projection_f(["no action at all"]) == ([None], [False])


def test_factory_takes_the_config_as_it_is() -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        train, val = make_environments(CONFIG)
    told = [str(one.message) for one in warned]
    assert told == [
        "es_manager.train.env_configs.n_groups is [1], but env_groups is 4: all 4 groups are of SokobanEnv",
        "es_manager.val.env_configs.n_groups is [1], but env_groups is 2: all 2 groups are of SokobanEnv",
    ]
    assert (len(train.envs), len(val.envs)) == (12, 2)
    assert len(train.reset()[0]["text"]) == 12
    val.reset()
    train.close()
    val.close()


def test_all_types_can_be_tried() -> None:
    for env_type in REGISTERED_ENVS:
        manager = create_single_environment_for_testing(env_type)
        observations, _ = manager.reset()
        assert observations["text"][0]
        manager.close()


def main() -> None:
    warnings.simplefilter("error")
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
    for name, test in tests.items():
        test()
        print(f"ok  {name.removeprefix('test_').replace('_', ' ')}")
    print(f"{len(tests)} passed")


if __name__ == "__main__":
    main()
