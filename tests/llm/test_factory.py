"""From a config to managers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.llm import (
    REGISTERED_ENVS,
    CountdownEnvironmentManager,
    EnvironmentManagerBase,
    SokobanEnvironmentManager,
    create_single_environment_for_testing,
    get_environment_requirements,
    get_supported_environment_types,
    make_environments,
    validate_environment_config,
)
from shoal.vector.errors import ConfigurationError
from tests.llm.worlds import config_of, registered


@pytest.fixture(autouse=True)
def _worlds() -> Iterator[None]:
    with registered():
        yield


def test_a_config_makes_managers_for_training_and_validation() -> None:
    config = config_of("Sokoban", groups=2, size=3, seed={"train": 5}, format_penalty=-0.5)
    config["es_manager"]["val"] = {**config["es_manager"]["val"], "group_size": 1}
    train, val = make_environments({**config, "env": {"history_length": 4}})
    with train, val:
        assert isinstance(train, SokobanEnvironmentManager)
        assert (len(train.envs), len(val.envs)) == (6, 2)
        assert (train.envs.seed, val.envs.seed) == (5, 1005)
        assert (train.history_length, train.format_penalty) == (4, 0.5)
        assert len(train.envs.worker_pids) == 2
        train.reset()
        assert train.step(["?"] * 6)[1].tolist() == [-0.5] * 6
        assert train.envs.env_type == "sokoban"


@pytest.mark.parametrize(("seed", "seeds"), [(3, (3, 1003)), ({"train": 3, "val": 4}, (3, 4)), (None, (42, 1042))])
def test_seeds_are_one_number_or_two(seed: Any, seeds: tuple[int, int]) -> None:
    train, val = make_environments({**config_of("Countdown"), "seed": seed, "use_parallel_envs": False})
    with train, val:
        assert (train.envs.seed, val.envs.seed) == seeds
        assert train.envs.worker_pids == ()


def test_several_tags_are_played_in_one_batch() -> None:
    config = config_of("Sokoban", "Bandit", "Countdown", groups=1, size=2, use_multiprocessing=False)
    config["custom_envs"]["Bandit"]["env_instruction"] = "Pull {one} of these."
    train, val = make_environments(config)
    with train, val:
        texts = train.reset()[0]["text"]
        assert [
            word in text for text, word in zip(texts[::2], ("Sokoban", "Pull {one} of", "Target"), strict=True)
        ] == [True] * 3
        answers = ["up", "down", "phoenix", "dragon", "1 + 1", "up"]
        _, rewards, dones, infos = train.step([f"<action>{answer}</action>" for answer in answers])
        assert [info["is_action_valid"] for info in infos] == [True] * 5 + [False]
        assert dones.tolist() == [False, False, True, True, True, False]
        texts = train.step(["<action>left</action>"] * 6)[0]["text"]
        assert "Action: Up" in texts[0]
        assert "Action: phoenix" in texts[2]


def test_members_of_groups_may_have_noise_of_their_own() -> None:
    config = config_of("Bandit", groups=1, size=32, use_multiprocessing=False)
    config["es_manager"]["train"]["noise"] = "independent"
    train, val = make_environments(config)
    with train, val:
        train.reset()
        rewards = train.step(["<action>dragon</action>"] * 32)[1]
        assert set(rewards.tolist()) == {0.0, 1.0}


def test_a_batch_size_that_does_not_fit_is_said() -> None:
    config = {**config_of("Countdown", groups=2, size=2), "data": {"train_batch_size": 8}}
    with pytest.warns(RuntimeWarning, match="data.train_batch_size is 8, but es_manager.train has 4 environments"):
        validate_environment_config(config)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        validate_environment_config({**config, "data": {"train_batch_size": 4}})


@pytest.mark.parametrize("section", ["es_manager", "custom_envs"])
def test_a_section_that_is_missing_is_named(section: str) -> None:
    config = config_of("Countdown")
    del config[section]
    with pytest.raises(ValueError, match=f"the section {section} is missing"):
        validate_environment_config(config)


def test_a_mode_that_is_missing_is_named_before_anything_is_started() -> None:
    config = config_of("Countdown")
    del config["es_manager"]["val"]
    with pytest.raises(ConfigurationError, match="the section es_manager.val is missing"):
        make_environments(config)


def test_a_key_that_a_world_does_not_know_is_named() -> None:
    config = config_of("Bandit", custom={"Bandit": {"env_type": "bandit", "env_config": {"max_steps": 100}}})
    with pytest.raises(
        ConfigurationError, match="custom_envs.Bandit.env_config: BanditConfig has no field 'max_steps'"
    ):
        validate_environment_config(config)


def test_types_and_what_they_need_can_be_asked_for() -> None:
    assert {"sokoban", "frozen_lake", "bandit", "countdown", "painter"} <= set(get_supported_environment_types())
    needs = get_environment_requirements("countdown")
    assert needs["env_class"] is REGISTERED_ENVS["countdown"]
    assert needs["packages"] == ["shoal[llm]"]
    assert needs["config"]["max_instances"] == 20000
    assert get_environment_requirements("sokoban")["config"]["dim_room"] == (6, 6)
    assert get_environment_requirements("painter")["config"] == {}
    with pytest.raises(ConfigurationError, match="Did you mean 'countdown'"):
        get_environment_requirements("countdowm")


def test_one_world_can_be_tried_by_itself() -> None:
    with create_single_environment_for_testing("countdown", {"largest_target": 10}, seed=3) as manager:
        assert isinstance(manager, CountdownEnvironmentManager)
        assert len(manager.reset()[0]["text"]) == 1
    with create_single_environment_for_testing("painter") as manager:
        assert type(manager) is EnvironmentManagerBase
