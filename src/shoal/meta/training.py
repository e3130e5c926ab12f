"""Meta-RL as a way of training: what runs and their command know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.envs.naming import find
from shoal.meta.config import MetaConfig
from shoal.runs.training.trainee import Method
from shoal.vector.errors import ConfigurationError

if TYPE_CHECKING:
    from shoal.meta.learner import Learner


def _made(config: MetaConfig) -> Learner:
    from shoal.meta.learner import Learner

    return Learner(config)


def _resolved(config: MetaConfig) -> MetaConfig:
    """As it is: nothing in it depends on the machine."""
    find(config.env.env_name)  # says so, if there is none of that name
    return config


def _to_look(config: MetaConfig, device: str) -> MetaConfig:
    if device != "cpu":
        raise ConfigurationError(f"agents of `shoal train-meta` act on the CPU, got --device {device}")
    return config


META = Method(
    name="meta",
    verb="shoal train-meta",
    settings=MetaConfig,
    changeable=(
        "train.num_iters", "env.num_parallel_workers", "env.parallel_kwargs", "eval.eval_every", "eval.checkpoint_every",
        "eval.keep_checkpoints",
    ),
    needed=("seed", "env.env_name", "train.num_iters", "policy.arch"),
    resolved=_resolved,
    make=_made,
    to_look=_to_look,
)  # fmt: skip
