"""Prompts, histories, rewards and success, as environment managers make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from shoal.llm import (
    BanditEnvironmentManager,
    CountdownEnvironmentManager,
    EnvironmentManagerBase,
    FrozenLakeEnvironmentManager,
    MultiProcessEnvironmentContainer,
    SokobanEnvironmentManager,
    create_projection_function,
)
from shoal.llm.environment_manager import MOST_KEPT
from shoal.vector.errors import ConfigurationError, InvalidAction
from tests.llm.worlds import registered


@pytest.fixture(autouse=True)
def _worlds() -> Iterator[None]:
    with registered():
        yield


def managed(
    kind: type[EnvironmentManagerBase], env_type: str, num: int = 2, *, env_kwargs: Any = None, **keywords: Any
) -> EnvironmentManagerBase:
    envs = MultiProcessEnvironmentContainer(env_type, num, 1, 0, env_kwargs, use_multiprocessing=False)
    return kind(envs, create_projection_function(env_type), env_type, **keywords)


def test_prompts_say_what_is_to_be_done_and_seen() -> None:
    kwargs = {"num_boxes": 1, "search_depth": 20}
    with managed(SokobanEnvironmentManager, "sokoban", env_kwargs=kwargs) as manager:
        observations, infos = manager.reset()
        assert list(observations) == ["text", "image", "anchor"]
        assert observations["image"] is None
        text, anchor = observations["text"][0], observations["anchor"][0]
        assert anchor in text
        for part in ("Sokoban", "√ box on target", "Current Observation:", "Available Actions: Up, Down, Left, Right"):
            assert part in text
        assert "What do you want to do?" in text
        assert "Previous Actions:" not in text
        assert len(infos) == 2


@pytest.mark.parametrize(
    ("kind", "env_type", "part", "answer"),
    [
        (FrozenLakeEnvironmentManager, "frozen_lake", "slippery", "left"),
        (BanditEnvironmentManager, "bandit", "Available Actions: phoenix, dragon", "dragon"),
        (CountdownEnvironmentManager, "countdown", "Target: ", "1 + 1"),
        (EnvironmentManagerBase, "counter", "Available Actions: Add, Take, Break", "Add"),
    ],
)
def test_each_type_of_world_can_be_played(
    kind: type[EnvironmentManagerBase], env_type: str, part: str, answer: str
) -> None:
    with managed(kind, env_type, 8) as manager:
        texts = manager.reset()[0]["text"]
        assert any(part in text for text in texts)
        example = texts[0].rpartition("<action>")[2].partition("</action>")[0]
        assert manager.projection_f.read([f"<action>{example}</action>"], manager.envs.get_available_actions()[:1])[
            0
        ].is_valid
        _, rewards, dones, infos = manager.step([f"<think>so</think><action>{answer}</action>"] * 8)
        assert rewards.dtype == np.float64
        assert dones.dtype == np.bool_
        assert all(info["is_action_valid"] for info in infos)


def test_the_ice_is_slippery_only_where_it_is() -> None:
    for is_slippery in (False, True):
        kwargs = {"is_slippery": is_slippery}
        with managed(FrozenLakeEnvironmentManager, "frozen_lake", env_kwargs=kwargs) as manager:
            assert ("slippery" in manager.reset()[0]["text"][0]) is is_slippery


def test_history_shows_the_last_turns_and_is_bounded() -> None:
    with managed(EnvironmentManagerBase, "counter", 1, env_kwargs={"target": 500}) as manager:
        manager.reset()
        for number in range(1, MOST_KEPT + 10):
            observations, *_ = manager.step(["<action>add</action>"])
            text = observations["text"][0]
            past = f"Step {number}: Observation: train: {number - 1} of 500 Action: Add"
            assert past in text
            assert observations["anchor"] == [f"train: {number} of 500"]
        assert text.count("Step ") == 2
        assert len(manager.buffers[0]) == MOST_KEPT
        assert manager.buffers[0][-1] == {
            "observation": f"train: {number - 1} of 500", "action": "Add", "step": number,
        }  # fmt: skip
        assert manager.build_text_obs(observations["anchor"], history_length=5)[0].count("Step ") == 5
        assert "Step " not in manager.build_text_obs(observations["anchor"], init=True)[0]
        assert "Step " not in manager.reset()[0]["text"][0]


def test_long_observations_are_cut_in_the_history_alone() -> None:
    with managed(SokobanEnvironmentManager, "sokoban", 1, env_kwargs={"dim_room": (12, 12), "num_boxes": 1}) as manager:
        before = manager.reset()[0]["anchor"][0]
        text = manager.step(["<action>up</action>"])[0]["text"][0]
        assert f"Observation: {before[:100]}...".replace("\n", " ") in text


@pytest.mark.parametrize("penalty", [0.25, -0.25])
def test_a_text_that_is_no_action_costs_a_penalty_and_changes_nothing(penalty: float) -> None:
    with managed(EnvironmentManagerBase, "counter", format_penalty=penalty) as manager:
        anchors = manager.reset()[0]["anchor"]
        observations, rewards, dones, infos = manager.step(["I support this", "<action>add</action>"])
        assert rewards.tolist() == [-0.25, 0.0]
        assert observations["anchor"][0] == anchors[0]
        assert [info["is_action_valid"] for info in infos] == [False, True]
        assert "Action: I support this" in observations["text"][0]


def test_worlds_that_have_ended_cost_nothing_and_have_no_history() -> None:
    with managed(EnvironmentManagerBase, "counter", env_kwargs={"target": 1}) as manager:
        manager.reset()
        manager.step(["<action>add</action>"] * 2)
        _, rewards, dones, _ = manager.step(["nothing"] * 2)
        assert dones[0]
        assert rewards.tolist() == [0.0, -0.1]
        assert [len(buffer) for buffer in manager.buffers] == [1, 2]


def test_pictures_come_as_one_array() -> None:
    with managed(EnvironmentManagerBase, "painter") as manager:
        observations, _ = manager.reset()
        assert observations["image"].shape == (2, 4, 4, 3)
        assert "Current Observation:\n<image>" in observations["text"][0]


def test_success_is_what_the_last_active_step_says() -> None:
    with managed(EnvironmentManagerBase, "counter") as manager:
        active = [{"active_masks": True}, {"active_masks": True}, {"active_masks": False}]
        infos: list[list[dict[str, Any]]] = [
            [{"success": False}, {"success": True}, {"success": False}],
            [{"won": True}, {"won": False}, {"won": True}],
            [{}, {"task_success": 1}, {}],
            [{}, {"success": False, "won": True}, {}],
        ]
        result = manager.success_evaluator(total_infos=infos, total_batch_list=[active] * 4)
        assert result["success_rate"].tolist() == [1.0, 0.0, 1.0, 0.0]
        nobody = manager.success_evaluator(total_infos=[[{}]], total_batch_list=[[{"active_masks": False}]])
        assert nobody["success_rate"].tolist() == [0.0]


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigurationError, match="history_length must be a whole number"):
        managed(EnvironmentManagerBase, "counter", history_length=-1)
    with managed(EnvironmentManagerBase, "counter") as manager:
        manager.reset()
        with pytest.raises(InvalidAction, match="1 texts were given for 2 worlds"):
            manager.step(["up"])
