"""Settings with which an agent is known to learn, by the name of the environment: ``Learner(preset_of("GridNavi-v0"))``."""

from __future__ import annotations

from typing import Any

from shoal.meta.architectures import AGENT_ARCHS
from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean

PRESETS: dict[str, dict[str, Any]] = {
    "GridNavi-v0": {
        "env": {"max_rollouts_per_task": 4, "num_train_tasks": 21, "num_eval_tasks": 21},
        "train": {"num_iters": 400, "num_init_rollouts_pool": 64},
    },
    "PointRobotSparse-v0": {
        "env": {"max_rollouts_per_task": 2, "num_train_tasks": 80, "num_eval_tasks": 20},
        "train": {"num_iters": 200, "num_init_rollouts_pool": 128},
    },
}
COMMON: dict[str, dict[str, Any]] = {
    "env": {"num_parallel_workers": 32},
    "train": {"num_rollouts_per_iter": 32, "num_updates_per_iter": 32, "batch_size": 32, "goal_is_terminal": False},
    "policy": {
        "lr": 1e-3,
        "alpha_lr": 3e-3,
        "gamma": 0.95,
        "tau": 0.01,
        "entropy_alpha": 0.05,
        "policy_layers": (64,),
        "dqn_layers": (64,),
    },
}
MARKOV_BATCH = 512
"""Transitions that an agent without a memory learns from at once, instead of 32 sequences."""


def preset_of(env_name: str, arch: AGENT_ARCHS | str = AGENT_ARCHS.Memory) -> dict[str, Any]:
    """The settings for an environment, with another architecture if wanted. They may be changed."""
    name = env_name.removeprefix("shoal/")
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS) or f" There are presets for {', '.join(PRESETS)}."
        raise ConfigurationError(f"there is no preset for {env_name!r}.{hint}")
    preset = {section: {**values, **PRESETS[name].get(section, {})} for section, values in COMMON.items()}
    preset["env"]["env_name"] = env_name
    preset["policy"]["arch"] = arch
    if arch == AGENT_ARCHS.Markov:
        preset["train"]["batch_size"] = MARKOV_BATCH
    return preset
