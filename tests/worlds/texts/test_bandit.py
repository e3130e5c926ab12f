"""The bandit: names by the task's seed, rewards by the noise's."""

from __future__ import annotations

from typing import Any

import pytest

from shoal import ConfigurationError
from shoal.envs.texts.bandit import NAMES, BanditEnv


def rewards_of(arm: str, seeds: range, task_seed: int = 0, **settings: Any) -> list[float]:
    env = BanditEnv(**settings)
    rewards = []
    for seed in seeds:
        env.reset(options={"task_seed": task_seed, "noise_seed": seed})
        rewards.append(env.step(arm)[1])
    return rewards


def test_a_pull_by_hand() -> None:
    env = BanditEnv()
    text, _ = env.reset(seed=0)
    assert text in ("Arms:\n1: phoenix\n2: dragon", "Arms:\n1: dragon\n2: phoenix")
    text, reward, terminated, truncated, info = env.step("Phoenix")
    assert (text, reward, terminated, truncated) == ("phoenix: 0.1 points", 0.1, True, False)
    assert info == {"action_is_valid": True, "action_is_effective": True, "success": False}
    assert env.solve() is None
    text, reward, terminated, _, info = env.step("dragon")
    assert (text, reward, terminated) == ("phoenix: 0.1 points", 0.0, True), "one pull is all there is"
    assert not info["action_is_effective"]
    env.reset(seed=0)
    _, reward, _, _, info = env.step("dragon")
    assert info["success"]
    assert reward in (0.0, 1.0)
    assert env.solve() == []


def test_an_arm_is_named_by_number_too() -> None:
    env = BanditEnv(action_space_start=0)
    for seed in range(10):
        text, _ = env.reset(seed=seed)
        first, second = (line.split(": ")[1] for line in text.splitlines()[1:])
        assert env.action_space.contains(0)
        assert env.action_space.contains(1)
        for action, name in [(0, first), (1, second), ("1", second), (f" {first.upper()} ", first)]:
            env.reset(seed=seed)
            assert env.step(action)[0].startswith(f"{name}: ")


def test_the_better_arm_pays_more_on_average_and_the_other_always_the_same() -> None:
    high, low = rewards_of("dragon", range(2000)), rewards_of("phoenix", range(20))
    assert set(high) == {0.0, 1.0}
    assert abs(sum(high) / 2000 - 0.25) < 0.04, "four standard deviations"
    assert set(low) == {0.1}


def test_order_and_names_depend_on_the_task_alone() -> None:
    env = BanditEnv(split="train")
    texts = {env.reset(options={"task_seed": 5, "noise_seed": seed})[0] for seed in range(30)}
    assert len(texts) == 1
    texts = {env.reset(options={"task_seed": seed, "noise_seed": 5})[0] for seed in range(300)}
    assert len(texts) == 2 * len(NAMES["train"]), "every pair, in either order"


def test_rewards_depend_on_the_noise_alone() -> None:
    assert rewards_of("dragon", range(50), task_seed=1) == rewards_of("dragon", range(50), task_seed=2)


def test_order_and_reward_have_nothing_to_do_with_each_other_where_both_seeds_are_one() -> None:
    env = BanditEnv(hi_arm_hiscore_prob=0.5)
    lucky = {1: 0, 2: 0}
    for seed in range(1000):
        env.reset(seed=seed)
        (arm,) = env.solve() or []
        lucky[arm] += env.step(arm)[1] == 1.0
    assert abs(lucky[1] - lucky[2]) < 70
    assert lucky[1] > 180


def test_a_mirrored_arm_is_lucky_where_the_other_is_not() -> None:
    env = BanditEnv(hi_arm_hiscore_prob=0.5)
    for seed in range(50):
        both = []
        for mirrored in (False, True):
            env.reset(options={"task_seed": 1, "noise_seed": seed, "mirrored": mirrored})
            both.append(env.step("dragon")[1])
        assert sorted(both) == [0.0, 1.0]


def test_no_pair_of_names_is_in_both_lists() -> None:
    train, test = ({name for pair in NAMES[split] for name in pair} for split in ("train", "test"))
    assert (len(train), len(test)) == (24, 16)
    assert not train & test


def test_arms_may_pay_other_rewards() -> None:
    settings: dict[str, Any] = {"lo_arm_score": 0.5, "hi_arm_loscore": -1.0, "hi_arm_hiscore": 7.0}
    assert set(rewards_of("dragon", range(50), **settings)) == {-1.0, 7.0}
    assert set(rewards_of("phoenix", range(5), **settings)) == {0.5}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "tran"}, "split must be one of 'train', 'test', got 'tran'. Did you mean 'train'?"),
        ({"hi_arm_hiscore_prob": 2}, "hi_arm_hiscore_prob must be a number from 0 to 1, got 2"),
        ({"lo_arm_name": "Dragon"}, "the arms must have different names, both are called 'Dragon'"),
        ({"lo_arm_name": ""}, "the name of an arm must be a text of 1 to 100 characters"),
        ({"hi_arm_name": " a"}, "without spaces around it, got ' a'"),
        ({"hi_arm_name": "a\nb" * 50}, "the name of an arm must be a text of 1 to 100 characters"),
    ],
)
def test_a_config_that_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        BanditEnv(**settings)
