"""Wherever worlds run, and whoever dies meanwhile: the same trajectories, prompts, rewards and metrics."""

from __future__ import annotations

import os
import random
import signal
from typing import Any

import pytest

from shoal.llm import EnvStateManager, make_environments
from tests.llm.worlds import config_of

TAGS = ("Sokoban", "Lake", "Bandit", "Countdown", "Shop", "Maths")
GOOD = {
    "Sokoban": ("Up", "down", "LEFT", "Right"),
    "Lake": ("Up", "Down", "Left", "Right"),
    "Bandit": ("phoenix", "Dragon"),
    "Countdown": ("1 + 1", "2 * (3 - 1)", "99"),
    "Shop": ("search[shoes]", "search[easy to clean]", "click[next >]", "back", "click[back to search]"),
    "Maths": ("42", "$1,234", "x"),
}
TURNS = 5


def answers(caches: list[dict[str, Any]], dice: random.Random) -> list[dict[str, Any]]:
    """What a careless player does: several actions, few, or none, and now and then what is no action."""
    return [
        {
            "env_id": cache["env_id"],
            "actions": dice.choices([*GOOD[cache["tag"]], "nonsense"], k=dice.randint(0, 3)),
            "llm_response": str(dice.random()),
            "llm_raw_response": "",
        }
        for cache in caches
    ]


def kill_a_worker(pids: tuple[int, ...], dice: random.Random) -> None:
    os.kill(dice.choice(pids), signal.SIGKILL)


def rollout(seed: int, *, dies_in: int | None = None, moves: bool = False, **es_manager: Any) -> list[Any]:
    dice, chance = random.Random(seed), random.Random(1)
    seen: list[Any] = []
    with EnvStateManager(config_of(*TAGS, groups=2, size=3, **es_manager)) as manager:
        for episode in range(2):
            caches = manager.reset(seed + episode)
            seen.append(manager.render())
            for turn in range(TURNS):
                if dies_in == turn:
                    kill_a_worker(manager.worker_pids, chance)
                if moves:
                    manager.use_multiprocessing = not manager.use_multiprocessing
                caches = manager.step(answers(caches, dice))
                seen.append([cache["env_id"] for cache in caches])
            seen.append(manager.render())
            seen.append(repr(manager.get_rollout_states()))
        if dies_in is not None:
            assert manager.stats.restarts >= 2
    return seen


@pytest.fixture(scope="module")
def expected() -> dict[int, list[Any]]:
    return {seed: rollout(seed, use_multiprocessing=False) for seed in (0, 7, 1234)}


@pytest.mark.parametrize(
    "num_workers", [pytest.param(count, marks=pytest.mark.slow if count != 2 else ()) for count in range(1, 9)]
)
@pytest.mark.parametrize("dies_in", [None, 2], ids=["quietly", "killed"])
def test_workers_give_what_a_loop_gives(expected: dict[int, list[Any]], num_workers: int, dies_in: int | None) -> None:
    for seed, result in expected.items():
        assert rollout(seed, max_workers=num_workers, dies_in=dies_in) == result


def test_some_types_in_workers_and_others_here_give_the_same(expected: dict[int, list[Any]]) -> None:
    types = ["bandit", "countdown"]
    assert rollout(7, sequential_env_types=types) == expected[7]
    assert rollout(7, sequential_env_types=types, dies_in=1) == expected[7]
    assert rollout(7, sequential_env_types=["sokoban", "frozen_lake", "bandit", "countdown", "webshop"]) == expected[7]


def test_worlds_that_move_in_every_turn_give_the_same(expected: dict[int, list[Any]]) -> None:
    assert rollout(1234, moves=True) == expected[1234]


def test_messages_through_pipes_give_the_same(expected: dict[int, list[Any]]) -> None:
    assert rollout(0, backend="pipes", dies_in=3) == expected[0]


def managed(seed: int, *, dies_in: int | None = None, **es_manager: Any) -> list[Any]:
    dice, chance = random.Random(seed), random.Random(1)
    seen: list[Any] = []
    config = config_of(*TAGS, groups=1, size=3, seed={"train": seed}, **es_manager)
    train, val = make_environments(config)
    with train, val:
        for manager in (train, val):
            for _ in range(2):
                seen.append(repr(manager.reset()))
                for turn in range(TURNS):
                    if dies_in == turn:
                        kill_a_worker(manager.envs.worker_pids, chance)
                    texts = [f"<action>{dice.choice(GOOD[TAGS[row // 3]])}</action>" for row in range(3 * len(TAGS))]
                    texts[dice.randrange(len(texts))] = "no tag"
                    seen.append(repr(manager.step(texts)))
    return seen


def test_managers_give_the_same_prompts_and_rewards_wherever_worlds_are() -> None:
    result = managed(3, use_multiprocessing=False)
    assert managed(3, max_workers=3) == result
    assert managed(3, dies_in=1) == result
