"""WebShop comes to the same wherever it runs, and whatever happens to its workers."""

from __future__ import annotations

import os
import pickle
import signal
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import shoal
from shoal import EnvList
from shoal.envs.webshop import WebShopEnv
from shoal.llm import EnvStateManager, GroupTasks
from shoal.llm.container import MultiProcessEnvironmentContainer
from shoal.llm.environment_managers import manager_of
from shoal.testing import check_restorable
from tests.comparing import difference

ID = "shoal/WebShop-v0"
SETTINGS: dict[str, Any] = {"num_products": 300}
ANSWERS = ["search[easy to clean]", "click[next >]", "back", "buy now", None, "click[nothing]", "click[features]"]


def quick(backend: str) -> dict[str, Any]:
    return {"start_method": "fork", "num_workers": 2} if backend in ("pipes", "shm") else {}


def action_of(random: np.random.Generator, solution: list[Any] | None) -> Any:
    if solution and random.random() < 0.6:
        return solution[0]
    return ANSWERS[int(random.integers(len(ANSWERS)))]


def test_it_is_an_environment_as_gymnasium_wants_it() -> None:
    made = gymnasium.make(ID, **SETTINGS)
    check_env(made.unwrapped, skip_render_check=True)
    made.reset(seed=1)
    assert made.render() == made.unwrapped.text()  # type: ignore[attr-defined]


def test_a_list_of_shops_is_the_same_everywhere(backend: str) -> None:
    """With workers that are killed in between."""

    def seen(name: str, **keywords: Any) -> list[Any]:
        random = np.random.default_rng(5)
        with EnvList([(ID, SETTINGS)] * 5, backend=name, **keywords) as envs:
            steps: list[Any] = [envs.reset(seed=9)]
            for number in range(25):
                if "start_method" in keywords and number in (4, 15):
                    os.kill(envs.worker_pids[number % 2], signal.SIGKILL)
                results = envs.step([action_of(random, solution) for solution in envs.call("solve")])
                steps.append(tuple(results))
                over = [row for row in range(5) if results.terminated[row] or results.truncated[row]]
                if over:
                    steps.append(envs.reset(env_ids=over, seed=[100 * number + row for row in over]))
            if "start_method" in keywords:
                assert envs.stats.restarts == 2
            return steps

    expected = seen("serial")
    assert not difference(seen(backend, **quick(backend)), expected)
    rewards = [reward for step in expected if len(step) == 5 for reward in step[1]]
    assert {0.0, 1.0} < {*rewards}


def test_groups_with_autoreset_are_the_same_everywhere(backend: str) -> None:
    tasks = GroupTasks(2, 2, seed=5)

    def seen(name: str, **keywords: Any) -> list[Any]:
        random = np.random.default_rng(6)
        with shoal.make(ID, groups=2, group_size=2, tasks=tasks, backend=name, **SETTINGS, **keywords) as envs:
            steps: list[Any] = [envs.reset()]
            for number in range(20):
                if "start_method" in keywords and number == 7:
                    os.kill(envs.worker_pids[1], signal.SIGKILL)
                steps.append(envs.step([str(action_of(random, one)) for one in envs.call("solve")]))
            assert envs.stats.group_mismatches == 0
            assert envs.stats.group_comparisons >= 2
            return steps

    assert not difference(seen(backend, **quick(backend)), seen("serial"))


def test_it_can_be_brought_back() -> None:
    report = check_restorable(lambda: gymnasium.make(ID, **SETTINGS))
    assert report.is_bounded, report


def test_a_state_is_a_small_copy_and_leads_to_the_same() -> None:
    env, other = WebShopEnv(**SETTINGS), WebShopEnv(**SETTINGS)
    env.reset(seed=8)
    env.step("search[easy to clean]")
    state = env.get_state()
    kept = pickle.dumps(state)
    assert len(kept) < 20_000
    rest = ["click[next >]", *(env.solve() or [])]
    expected = [env.step(action) for action in rest[:1]]
    solution = env.solve() or []
    expected += [env.step(action) for action in solution]
    assert pickle.dumps(state) == kept, "it has not changed"
    other.set_state(pickle.loads(kept))
    assert [other.step(action) for action in (rest[0], *solution)] == expected


def test_an_episode_is_forked() -> None:
    with shoal.make(ID, 3, backend="shm", on_fault="restore", **SETTINGS, **quick("shm")) as envs:
        envs.reset(seed=1)
        envs.step(["search[easy to clean]", "search[shoes]", "search[tea]"])
        envs.fork(0, [1, 2])
        texts, *_ = envs.step(["click[next >]"] * 3)
        assert len({*texts}) == 1


def config(**others: Any) -> dict[str, Any]:
    section = {"env_groups": 2, "group_size": 2, "env_configs": {"tags": ["Shop"], "n_groups": [2]}}
    return {
        "seed": {"train": 7, "val": 8},
        "es_manager": {"train": section, "val": section, "start_method": "fork", **others},
        "custom_envs": {"Shop": {"env_type": "webshop", "env_config": dict(SETTINGS)}},
    }


def test_a_state_manager_counts_purchases_once() -> None:
    manager = EnvStateManager(config(use_multiprocessing=False), mode="train")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = manager.reset()
        assert first[0]["history"][0]["actions_left"] == 9
        assert first[0]["history"][0]["state"] == first[1]["history"][0]["state"] != first[2]["history"][0]["state"]
        shop = WebShopEnv(**SETTINGS)
        assert shop.reset(seed=7)[0] == first[0]["history"][0]["state"]
        actions = ["click[nothing]", *(shop.solve() or [])]
        for action in actions:
            manager.step([{"env_id": 0, "llm_raw_response": "", "llm_response": "", "actions": [action]}])
        (cache, *_) = manager.get_rollout_states()
    metrics = cache["metrics"]
    assert metrics["Shop/success"] == metrics["Shop/success_purchase"] == metrics["Shop/success_find"] == 1.0
    assert metrics["Shop/action_is_valid"] == pytest.approx(1 - 1 / len(actions))
    manager.close()


def test_a_manager_tells_its_player_how_to_shop() -> None:
    envs = MultiProcessEnvironmentContainer("webshop", 1, 1, 3, dict(SETTINGS), use_multiprocessing=False)
    with manager_of("webshop", envs) as manager:
        observations, _ = manager.reset()
        (prompt,) = observations["text"]
        assert "You have at most 9 actions" in prompt
        assert "<action>search[red running shoes]</action>" in prompt
        assert "WebShop [SEP] Instruction: [SEP]" in prompt
        observations, rewards, dones, infos = manager.step(["<think>tea?</think><action>Search[green tea]</action>"])
        assert infos[0]["action_is_valid"]
        assert "(Total results:" in observations["text"][0]
        _, rewards, dones, infos = manager.step(["<action>buy everything</action>"])
        assert (rewards[0], dones[0], infos[0]["is_action_valid"]) == (-0.1, False, False)
