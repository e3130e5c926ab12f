"""PPO as a way of training: runs of it, in a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.envs.naming import find
from shoal.ppo.config import PPOConfig
from shoal.ppo.video import check_that_it_can_be_filmed
from shoal.runs.report import Report
from shoal.runs.training import loop
from shoal.runs.training.trainee import Film, Method, Shown


def _resolved(config: PPOConfig) -> PPOConfig:
    from shoal.ppo.trainer import resolved

    find(config.env)  # says so, if there is none of that name
    return resolved(config)


def _make(config: PPOConfig) -> Any:
    from shoal.ppo.trainer import PPOTrainer

    return PPOTrainer(config)


PPO = Method(
    name="ppo",
    verb="shoal train",
    settings=PPOConfig,
    changeable=("num_episodes", "total_steps", "backend", "num_workers", "parallel_start_method", "checkpoint_every",
                "keep_checkpoints", "eval_every", "eval_episodes", "eval_max_steps"),
    needed=("env", "seed", "num_episodes", "total_steps"),
    resolved=_resolved,
    make=_make,
    to_look=lambda config, device: config.replaced(n_envs=1, backend="serial", device=device),
    film=Film(check_that_it_can_be_filmed, lambda trainer, path, seed: trainer.record(path, seed)),
    left_to_shoal=(("n_envs", "auto"), ("torch_threads", None)),
)  # fmt: skip


def train(config: PPOConfig, *, root: Path = Path("runs"), checkpoint_dir: Path | None = None, **shown: Any) -> Report:
    """Train from the beginning. ``shown``: ``display``, ``wandb`` and ``record_video``, as the command has them."""
    return loop.begin(PPO, config, Shown(**shown), root, checkpoint_dir)


def resume(
    path: Path, *, display: str = "auto", wandb: bool = False, record_video: bool = False, **changes: Any
) -> Report:
    """Go on with a run from its last checkpoint, as if it had never been interrupted."""
    return loop.resume(PPO, path, changes, Shown(display, wandb, record_video))
