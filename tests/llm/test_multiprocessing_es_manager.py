"""``python test_multiprocessing_es_manager.py``: EnvStateManager gives the same with workers and without, and survives faults.

Runs by itself, wherever Shoal is installed, and under pytest.
"""

from __future__ import annotations

import copy
import os
import random
import signal
import tempfile
import warnings
from pathlib import Path
from typing import Any

import yaml

from shoal.llm import REGISTERED_ENVS, EnvStateManager

CONFIG = yaml.safe_load(
    """
    es_manager:
      use_multiprocessing: true
      max_workers: 3
      sequential_env_types: []
      format_penalty: 0.1
      train:
        env_groups: 8
        group_size: 2
        env_configs:
          tags: [Sokoban, FrozenLake, Bandit, Countdown]
          n_groups: [2, 2, 2, 2]
    custom_envs:
      Sokoban: {env_type: sokoban, env_config: {num_boxes: 1, search_depth: 20}}
      FrozenLake: {env_type: frozen_lake}
      Bandit: {env_type: bandit, max_actions_per_traj: 1}
      Countdown: {env_type: countdown, max_actions_per_traj: 1}
    """
)
ACTIONS = {
    "Sokoban": ["Up", "Down", "Left", "Right"],
    "FrozenLake": ["Left", "Down", "Right", "Up"],
    "Bandit": ["phoenix", "dragon"],
    "Countdown": ["1 + 2"],
}


def config_with(**keys: Any) -> dict[str, Any]:
    config: dict[str, Any] = copy.deepcopy(CONFIG)
    config["es_manager"].update(keys)
    return config


def answers(caches: list[dict[str, Any]], dice: random.Random) -> list[dict[str, Any]]:
    """All live members, several actions in a turn, some of them no actions."""
    return [
        {
            "env_id": cache["env_id"],
            "llm_raw_response": "raw",
            "llm_response": "said",
            "actions": dice.choices([*ACTIONS[cache["tag"]], "invalid"], k=3),
        }
        for cache in caches
    ]


def rollout(config: Any, *, turns: int = 4, parallel: bool | None = None) -> str:
    """Everything that a batch of trajectories comes to, as text."""
    dice = random.Random(0)
    es_manager = EnvStateManager(config, mode="train")
    try:
        caches = es_manager.reset(seed=42)
        for _ in range(turns):
            if parallel is not None:
                step = es_manager._step_parallel if parallel else es_manager._step_sequential
                caches = step(answers(caches, dice))
            else:
                caches = es_manager.step(answers(caches, dice))
        return repr((es_manager.render(), es_manager.get_rollout_states()))
    finally:
        es_manager.close()


def test_sequential_and_parallel_results_are_the_same() -> None:
    expected = rollout(config_with(use_multiprocessing=False))
    for workers in (1, 3):
        assert rollout(config_with(max_workers=workers)) == expected
    assert rollout(config_with(), parallel=True) == expected
    assert rollout(config_with(), parallel=False) == expected


def test_types_that_are_named_are_sequential_and_only_these() -> None:
    expected = rollout(config_with(use_multiprocessing=False))
    assert rollout(config_with(sequential_env_types=["frozen_lake", "bandit"])) == expected


def test_basic_usage() -> None:
    config = config_with()
    # Automatic configuration-based behavior
    es_manager = EnvStateManager(config, mode="train")
    rollout_cache = es_manager.reset(seed=42)
    all_env_inputs = answers(rollout_cache, random.Random(1))
    env_outputs = es_manager.step(all_env_inputs)
    assert len(rollout_cache) == 16
    assert 0 < len(env_outputs) < 16  # those with one action have ended
    es_manager.close()


def test_force_sequential_processing() -> None:
    config = config_with()
    # Disable multiprocessing for debugging
    es_manager = EnvStateManager(config, mode="train")
    es_manager.use_multiprocessing = False
    all_env_inputs = answers(es_manager.reset(seed=42), random.Random(1))
    env_outputs = es_manager.step(all_env_inputs)
    assert env_outputs
    es_manager.close()


def test_sequential_from_the_middle_of_an_episode_on() -> None:
    expected = rollout(config_with(use_multiprocessing=False))
    dice = random.Random(0)
    es_manager = EnvStateManager(config_with(), mode="train")
    caches = es_manager.reset(seed=42)
    for turn in range(4):
        if turn == 2:
            es_manager.use_multiprocessing = False
        caches = es_manager.step(answers(caches, dice))
    assert repr((es_manager.render(), es_manager.get_rollout_states())) == expected
    es_manager.close()


def test_a_file_is_a_config() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(yaml.safe_dump(CONFIG))
        assert rollout(path) == rollout(CONFIG)


def test_defaults_are_those_that_are_documented() -> None:
    config = copy.deepcopy(CONFIG)
    for key in ("use_multiprocessing", "max_workers", "sequential_env_types", "format_penalty"):
        del config["es_manager"][key]
    es_manager = EnvStateManager(config)
    assert es_manager.use_multiprocessing
    assert es_manager.sequential_env_types == []
    assert es_manager.format_penalty == 0.1
    es_manager.reset(seed=0)
    assert len(es_manager.worker_pids) == min(8, len(os.sched_getaffinity(0)), 16)
    es_manager.close()


def test_a_killed_worker_changes_nothing() -> None:
    expected = rollout(config_with(use_multiprocessing=False))
    dice = random.Random(0)
    es_manager = EnvStateManager(config_with(), mode="train")
    caches = es_manager.reset(seed=42)
    for turn in range(4):
        if turn == 1:
            os.kill(es_manager.worker_pids[0], signal.SIGKILL)
        caches = es_manager.step(answers(caches, dice))
    assert repr((es_manager.render(), es_manager.get_rollout_states())) == expected
    assert es_manager.stats.restarts == 1
    es_manager.close()


class BrokenWorld:
    """Cannot begin every other task."""

    def reset(self, seed: int = 0, mode: str = "train") -> str:
        if seed % 2:
            raise RuntimeError("this world is broken")
        return self.render()

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        return self.render(), 1.0, False, {"success": False}

    def render(self) -> str:
        return "a world"


def test_a_broken_world_keeps_its_place_and_the_others_go_on() -> None:
    REGISTERED_ENVS["broken"] = BrokenWorld
    try:
        config = config_with()
        config["custom_envs"]["Bandit"] = {"env_type": "broken"}
        es_manager = EnvStateManager(config, mode="train")
        rollout_cache = es_manager.reset(seed=42)
        assert [cache["env_id"] for cache in rollout_cache] == list(range(16))
        broken = [cache["env_id"] for cache in rollout_cache if cache["status"] == "env_error"]
        assert broken == [10, 11]  # of the second group
        env_outputs = es_manager.step(answers(rollout_cache, random.Random(0)))
        assert not set(broken) & {cache["env_id"] for cache in env_outputs}
        assert es_manager.get_rollout_states()[10]["metrics"] == {}
        es_manager.close()
    finally:
        del REGISTERED_ENVS["broken"]


def main() -> None:
    warnings.simplefilter("error")
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
    for name, test in tests.items():
        test()
        print(f"ok  {name.removeprefix('test_').replace('_', ' ')}")
    print(f"{len(tests)} passed")


if __name__ == "__main__":
    main()
