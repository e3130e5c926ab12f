"""What ``EnvStateManager`` does with seeds, turns, budgets, penalties and metrics."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from shoal.llm import EnvStateManager, Status
from shoal.vector.errors import ConfigurationError, InvalidAction, ResetNeeded, StateError
from tests.llm.worlds import config_of, inputs_of, registered


@pytest.fixture(autouse=True)
def _worlds() -> Iterator[None]:
    with registered():
        yield


def here(*tags: str, mode: str = "train", **keywords: Any) -> EnvStateManager:
    return EnvStateManager(config_of(*tags, use_multiprocessing=False, **keywords), mode)


def seeds_of(manager: EnvStateManager) -> list[int | None]:
    return [one.status.seed for one in manager.envs]


# -- seeds ---------------------------------------------------------------------------------------------------------------


def test_group_i_begins_with_seed_plus_i() -> None:
    with here("Sokoban", "Lake") as manager:
        caches = manager.reset(seed=42)
        assert seeds_of(manager) == [42, 42, 43, 43, 44, 44, 45, 45]
        assert [cache["env_id"] for cache in caches] == list(range(8))
        assert [cache["group_id"] for cache in caches] == [0, 0, 1, 1, 2, 2, 3, 3]
        assert [cache["tag"] for cache in caches] == ["Sokoban"] * 4 + ["Lake"] * 4
        states = [cache["history"][0]["state"] for cache in caches]
        assert states[0] == states[1] != states[2] == states[3]


def test_training_goes_on_from_its_base_seed() -> None:
    with here("Bandit", groups=1, seed={"train": 7}) as manager:
        assert [manager.reset() and seeds_of(manager)[0] for _ in range(2)] == [7, 8]
    with here("Bandit", groups=3, seed={"train": 100}) as manager:
        assert [manager.reset() and seeds_of(manager)[0] for _ in range(2)] == [100, 103]
        manager.reset(seed=200)
        assert manager.seed_counter == 101
        manager.reset()
        assert seeds_of(manager)[0] == 201


def test_without_a_base_seed_training_draws_one_from_the_callers_random_numbers() -> None:
    with here("Bandit") as manager:
        random.seed(5)
        manager.reset()
        first = seeds_of(manager)
        random.seed(5)
        manager.reset()
        assert seeds_of(manager) == first
        manager.reset()
        assert seeds_of(manager) != first


def test_validation_always_begins_with_the_same_seed() -> None:
    with here("Bandit", mode="val") as manager:
        assert [manager.reset() and seeds_of(manager)[0] for _ in range(2)] == [123, 123]
    with here("Bandit", mode="val", seed={"val": 9}) as manager:
        assert [manager.reset() and seeds_of(manager)[0] for _ in range(2)] == [9, 9]
        manager.reset(seed=3)
        assert seeds_of(manager)[0] == 3
        manager.reset()
        assert seeds_of(manager)[0] == 9


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    with here("Bandit") as manager, pytest.raises(ConfigurationError, match="seed must be a whole number"):
        manager.reset(seed=seed)


# -- turns ---------------------------------------------------------------------------------------------------------------


def test_caches_have_the_shape_that_users_know() -> None:
    with here("Counter", groups=1, size=1) as manager:
        (cache,) = manager.reset(seed=0)
        assert cache == {
            "env_id": 0,
            "history": [{"state": "train: 0 of 3", "actions_left": 10}],
            "group_id": 0,
            "tag": "Counter",
            "penalty": 0,
            "status": "ok",
        }
        (same,) = manager.step(inputs_of([cache], "Add", "add", "take"))
        assert same is cache
        assert cache["history"] == [
            {
                "state": "train: 0 of 3",
                "actions_left": 10,
                "actions": [1, 1, 2],
                "reward": 0.0,
                "info": {"success": False, "action_is_valid": True, "count": 1.0},
                "llm_response": "<answer>Add || add || take</answer>",
                "llm_raw_response": "<answer>Add || add || take</answer>",
            },
            {"state": "train: 1 of 3", "actions_left": 7},
        ]
        json.dumps(cache)


def test_a_turn_stops_where_the_episode_ends() -> None:
    with here("Counter", groups=1, size=2) as manager:
        caches = manager.reset(seed=0)
        inputs = inputs_of(caches[:1], *["Add"] * 5) + inputs_of(caches[1:], "Add")
        outputs = manager.step(inputs)
        assert [cache["env_id"] for cache in outputs] == [1]
        ended = manager.envs[0].status
        assert (ended.terminated, ended.truncated, ended.num_actions, ended.rewards) == (True, False, 3, [1.0])
        assert caches[0]["history"][0]["actions"] == [1, 1, 1]
        assert caches[0]["status"] is Status.OK


def test_outputs_are_in_the_order_of_inputs() -> None:
    with here("Counter", groups=2) as manager:
        caches = manager.reset(seed=0)
        outputs = manager.step(inputs_of([caches[2], caches[0]], "Add"))
        assert [cache["env_id"] for cache in outputs] == [2, 0]


def test_a_budget_that_is_used_up_ends_a_trajectory_as_truncated() -> None:
    custom = {"Counter": {"env_type": "counter", "max_actions_per_traj": 4, "env_config": {"target": 100}}}
    with here("Counter", groups=1, size=1, custom=custom) as manager:
        caches = manager.step(inputs_of(manager.reset(seed=0), "Add", "Add", "Add"))
        assert caches[0]["history"][-1]["actions_left"] == 1
        assert manager.step(inputs_of(caches, "Add", "Add")) == []
        (cache,) = manager.get_rollout_states()
        assert cache["history"][1]["actions"] == [1]
        assert (cache["status"], cache["penalty"]) == ("truncated", 0)
        assert manager.envs[0].status.truncated
        assert cache["metrics"]["Counter/success"] == 0.0


def test_an_end_without_success_is_not_a_success() -> None:
    with here("Lake", groups=20, size=1) as manager:
        caches = manager.reset(seed=0)
        while caches:
            caches = manager.step(inputs_of(caches, "Left"))
        results = manager.get_rollout_states()
        in_holes = [cache for cache in results if "X" in cache["history"][-1]["state"]]
        assert in_holes
        assert not any(cache["metrics"]["Lake/success"] for cache in in_holes)
        assert all(manager.envs[cache["env_id"]].status.truncated for cache in in_holes)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_bad_turn_costs_the_penalty_whichever_its_sign(sign: int) -> None:
    with here("Counter", groups=1, size=3, format_penalty=0.25 * sign) as manager:
        caches = manager.reset(seed=0)
        inputs = [*inputs_of(caches[:1], "Add", "what"), *inputs_of(caches[1:2]), *inputs_of(caches[2:], "Add")]
        caches = manager.step(inputs)
        assert [cache["penalty"] for cache in caches] == [-0.25, -0.25, 0]
        assert [cache["history"][0]["actions"] for cache in caches] == [[1], [], [1]]
        assert caches[1]["history"][0]["info"] == {"manager_invalid_action": True}
        assert caches[1]["history"][1] == {
            "state": "train: 0 of 3",
            "manager_invalid_action": True,
            "actions_left": 10,
        }
        caches = manager.step(inputs_of(caches[:1], "nonsense"))
        assert caches[0]["penalty"] == -0.5


def test_worlds_without_names_of_actions_are_given_texts() -> None:
    with here("Countdown", groups=1, size=1) as manager:
        (cache,) = manager.reset(seed=3)
        assert manager.step(inputs_of([cache], "1 + 1")) == []
        assert cache["history"][0]["actions"] == ["1 + 1"]


def test_arms_are_called_what_the_world_calls_them_now() -> None:
    custom = {"Bandit": {"env_type": "bandit", "env_config": {"split": "train"}}}
    with here("Bandit", groups=8, size=1, custom=custom) as manager:
        for seed in range(2):
            caches = manager.reset(seed=8 * seed)
            names = [cache["history"][0]["state"].splitlines()[2].partition(": ")[2] for cache in caches]
            assert len(set(names)) > 1
            inputs = [inputs_of([cache], name)[0] for cache, name in zip(caches, names, strict=True)]
            assert manager.step(inputs) == []
            assert all(cache["history"][0]["actions"] == [2] for cache in caches)


def test_members_may_have_noise_of_their_own() -> None:
    config = config_of("Bandit", groups=1, size=64, use_multiprocessing=False)
    config["es_manager"]["train"]["noise"] = "independent"
    with EnvStateManager(config) as manager:
        caches = manager.reset(seed=1)
        assert len({cache["history"][0]["state"] for cache in caches}) == 1
        manager.step(inputs_of(caches, "dragon"))
        assert {one.status.rewards[0] for one in manager.envs} == {0.0, 1.0}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"env_id": 4, "actions": []}], "from 0 to 3, got 4"),
        ([{"env_id": -1, "actions": []}], "from 0 to 3, got -1"),
        ([{"actions": []}], "at least env_id and actions"),
        ([{"env_id": 0, "actions": []}] * 2, "two inputs for environment 0"),
        ([{"env_id": 0, "actions": "Up"}], "must be a list, got 'Up'"),
    ],
)
def test_inputs_that_fit_nothing_are_refused_before_anything_is_done(given: Any, message: str) -> None:
    with here("Counter") as manager:
        (*_, last) = manager.reset(seed=0)
        with pytest.raises(InvalidAction, match=message):
            manager.step([*inputs_of([last], "Add"), *given])
        assert len(last["history"]) == 1


def test_an_answer_to_a_trajectory_that_has_ended_is_refused() -> None:
    with here("Bandit", groups=1, size=1) as manager:
        caches = manager.reset(seed=0)
        manager.step(inputs_of(caches, "phoenix"))
        with pytest.raises(ResetNeeded, match="environment 0 has ended: answer only what"):
            manager.step(inputs_of(caches, "phoenix"))


def test_nothing_is_done_before_a_reset_or_after_the_end() -> None:
    manager = here("Bandit")
    for ask in (lambda: manager.step([]), manager.get_rollout_states, manager.render):
        with pytest.raises(ResetNeeded, match=r"call reset\(\) before"):
            ask()
    manager.reset(seed=0)
    manager.close()
    manager.close()
    with pytest.raises(StateError, match="closed"):
        manager.reset(seed=0)


# -- metrics -------------------------------------------------------------------------------------------------------------


def test_metrics_are_means_over_turns_and_passes_over_groups() -> None:
    with here("Counter", groups=2, size=2) as manager:
        caches = manager.reset(seed=0)  # odd groups begin at one
        caches = manager.step(inputs_of(caches[:3], "Add", "Add"))
        manager.step(inputs_of(caches[:1], "Add"))
        results = manager.get_rollout_states()
        assert results[0]["metrics"] == {
            "Counter/success": 1.0,
            "Counter/num_actions": 3,
            "Counter/action_is_valid": 1.0,
            "Counter/count": 2.5,
            "Counter/pass@2": 1.0,
        }
        assert results[0]["history"][-1]["metrics"]["count"] == [2.0, 3.0]
        assert [cache["metrics"]["Counter/success"] for cache in results] == [1.0, 0.0, 1.0, 0.0]
        assert [cache["metrics"]["Counter/pass@2"] for cache in results] == [1.0] * 4
        assert manager.get_rollout_states() == results


def test_what_is_no_number_has_no_metric_and_is_said_once() -> None:
    with here("Painter", groups=1, size=2, custom={"Painter": {"env_type": "painter"}}) as manager:
        manager.step(inputs_of(manager.reset(seed=0), "Dark"))
        with pytest.warns(RuntimeWarning, match="Painter/name is no number") as warned:
            results = manager.get_rollout_states()
        manager.get_rollout_states()
        assert len(warned) == 1
        assert "Painter/shade" in results[0]["metrics"]
        assert "Painter/name" not in results[0]["metrics"]


# -- pictures ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_pictures_stand_beside_the_text(parallel: bool, count: int) -> None:
    custom = {"Painter": {"env_type": "painter", "env_config": {"pictures": count}}}
    with EnvStateManager(config_of("Painter", groups=1, custom=custom, use_multiprocessing=parallel)) as manager:
        caches = manager.reset(seed=50)
        entry = caches[0]["history"][0]
        assert entry["state"] == "<images>" * count
        assert [image.size for image in entry["images"]] == [(4, 4)] * count
        caches = manager.step([*inputs_of(caches[:1], "Bright"), *inputs_of(caches[1:], "what")])
        shades = [int(np.asarray(cache["history"][-1]["images"][0])[0, 0, 0]) for cache in caches]
        assert shades == [60, 50]
        assert np.shape(manager.render()[0])[-3:] == (4, 4, 3)


def test_sokoban_shows_pictures_where_it_is_told_to() -> None:
    config = {"render_mode": "tiny_rgb_array", "num_boxes": 1, "search_depth": 10}
    with here(
        "Sokoban", groups=1, size=1, custom={"Sokoban": {"env_type": "sokoban", "env_config": config}}
    ) as manager:
        (cache,) = manager.reset(seed=0)
        assert cache["history"][0]["images"][0].size == (6, 6)


# -- configs -------------------------------------------------------------------------------------------------------------


def as_namespace(value: Any) -> Any:
    return SimpleNamespace(**{k: as_namespace(v) for k, v in value.items()}) if isinstance(value, dict) else value


def test_a_config_is_a_dictionary_or_a_file_or_has_attributes(tmp_path: Path) -> None:
    config = config_of("Sokoban", use_multiprocessing=False)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    forms: list[Any] = [config, tmp_path / "config.yaml", str(tmp_path / "config.yaml"), as_namespace(config)]
    histories = []
    for form in forms:
        with EnvStateManager(form) as manager:
            histories.append([cache["history"] for cache in manager.reset(seed=0)])
    assert histories == [histories[0]] * 4


def test_a_config_of_omegaconf_is_understood() -> None:
    omegaconf = pytest.importorskip("omegaconf")
    config = config_of("Sokoban", use_multiprocessing=False)
    config["es_manager"]["val"] = "${es_manager.train}"
    config["elsewhere"] = "???"
    for mode in ("train", "val"):
        with EnvStateManager(omegaconf.OmegaConf.create(config), mode) as manager:
            assert len(manager.reset(seed=0)) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("es_manager.train.env_groups = 3", "n_groups is .2., but env_groups is 3"),
        ("es_manager.train.env_groups = 0", "es_manager.train.env_groups must be a whole number of at least 1"),
        ("es_manager.train.group_size = None", "es_manager.train.group_size is missing"),
        ("es_manager.train.env_configs.tags = ['Sokobann']", "section custom_envs.Sokobann is missing.*'Sokoban'"),
        ("es_manager.train.env_configs.tags = 'Sokoban'", "tags must be a list of names of custom_envs"),
        ("es_manager.train.env_configs.tags = ['Sokoban', 'Lake']", "n_groups must have the number of groups of each"),
        ("es_manager.train.noise = 'loud'", "es_manager.train.noise must be one of"),
        ("es_manager.format_penalty = 'much'", "es_manager.format_penalty must be a number, got 'much'"),
        ("es_manager.use_multiprocessing = 'yes'", "es_manager.use_multiprocessing must be True or False"),
        ("es_manager.max_workers = 0", "es_manager.max_workers must be a whole number of at least 1"),
        ("es_manager.sequential_env_types = 'sokoban'", "sequential_env_types must be a list"),
        ("es_manager.sequential_env_types = ['sokobann']", "no world has this type. Did you mean 'sokoban'"),
        ("es_manager.step_timeout = -1", "es_manager.step_timeout must be a positive number"),
        ("es_manager.backend = 'threads'", "es_manager.backend must be one of 'shm', 'pipes'"),
        ("es_manager.on_fault = 'restor'", "es_manager.on_fault must be one of.*Did you mean 'restore'"),
        ("custom_envs.Sokoban.env_type = 'sokobann'", "custom_envs.Sokoban: no world.*Did you mean 'sokoban'"),
        ("custom_envs.Sokoban.env_type = None", "custom_envs.Sokoban.env_type is missing"),
        ("custom_envs.Sokoban.max_actions_per_traj = 0", "custom_envs.Sokoban.max_actions_per_traj must be"),
        ("custom_envs.Sokoban.env_config = {'num_boxs': 1}", "custom_envs.Sokoban.env_config.*no field 'num_boxs'"),
        ("custom_envs.Sokoban.env_config = {'num_boxes': 99}", "custom_envs.Sokoban.env_config: num_boxes=99"),
        ("custom_envs.Sokoban.env_config = 3", "env_config must be a section"),
        ("seed = {'train': 'x'}", "seed.train must be a whole number"),
        ("es_manager = 3", "es_manager must be a section"),
    ],
)
def test_what_cannot_be_is_said_with_the_whole_key(change: str, message: str) -> None:
    config = config_of("Sokoban")
    path, _, value = change.partition(" = ")
    *sections, key = path.split(".")
    place = config
    for section in sections:
        place = place[section]
    place[key] = eval(value)
    if "n_groups is" in message:
        with pytest.warns(RuntimeWarning, match=message):
            assert len(EnvStateManager(config).envs) == 6
        return
    with pytest.raises(ConfigurationError, match=message):
        EnvStateManager(config)


def test_other_mistakes_are_named_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="mode must be one of"):
        EnvStateManager(config_of("Sokoban"), "test")
    with pytest.raises(ConfigurationError, match="config must be a dictionary"):
        EnvStateManager(3)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        EnvStateManager(tmp_path / "none.yaml")
    with pytest.raises(ConfigurationError, match="section es_manager is missing"):
        EnvStateManager({})
    config = config_of("Sokoban", "Lake")
    config["es_manager"]["train"]["env_configs"]["n_groups"] = [1, 1]
    with pytest.raises(ConfigurationError, match="n_groups is .1, 1., which are 2 groups, but env_groups is 4"):
        EnvStateManager(config)
