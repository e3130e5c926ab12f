"""Worlds that come with Shoal, under ids that begin with ``shoal/``."""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium

from shoal.envs.meta.registered import META_WORLDS

WORLDS: dict[str, dict[str, object]] = {
    "shoal/Cage2-v0": {"entry_point": "shoal.envs.cage2:Cage2Env"},
    # The real simulator of the same game, where that is installed.
    "shoal/CybORG-v0": {"entry_point": "shoal.cyber.cyborg_env:CybORGEnv"},
    "shoal/CartPole-v0": {
        "entry_point": "shoal.envs.cart_pole:CartPoleEnv",
        "max_episode_steps": 500,
        "reward_threshold": 475.0,
    },
    "shoal/FrozenLake-v0": {
        "entry_point": "shoal.envs.frozen_lake:FrozenLakeEnv",
        "kwargs": {"map_name": "4x4"},
        "max_episode_steps": 100,
    },
    "shoal/Bandit-v0": {"entry_point": "shoal.envs.texts.bandit:BanditEnv"},
    "shoal/Countdown-v0": {"entry_point": "shoal.envs.texts.countdown:CountdownEnv"},
    "shoal/MetaMathQA-v0": {"entry_point": "shoal.envs.texts.metamathqa:MetaMathQAEnv"},
    "shoal/FrozenLakeText-v0": {"entry_point": "shoal.envs.texts.frozen_lake:FrozenLakeTextEnv"},
    "shoal/FrozenLake8x8-v0": {
        "entry_point": "shoal.envs.frozen_lake:FrozenLakeEnv",
        "kwargs": {"map_name": "8x8"},
        "max_episode_steps": 200,
    },
    "shoal/Sokoban-v0": {"entry_point": "shoal.envs.sokoban:SokobanEnv"},
    "shoal/SokobanGrid-v0": {"entry_point": "shoal.envs.sokoban:SokobanGridEnv"},
    "shoal/WebShop-v0": {"entry_point": "shoal.envs.webshop:WebShopEnv"},
    **{f"shoal/{name}": registration for name, registration in META_WORLDS.items()},
}


def register_worlds(worlds: Mapping[str, Mapping[str, object]] = WORLDS) -> None:
    """Let Gymnasium know them, where it knows nothing of that name. Nothing is imported until one is made."""
    for env_id, registration in worlds.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, **registration)  # type: ignore[arg-type]
