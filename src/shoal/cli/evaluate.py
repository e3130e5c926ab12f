"""``shoal eval``: see what a trained policy is worth."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from shoal.meta.training import META
from shoal.ppo.config import PPOConfig
from shoal.ppo.run import PPO
from shoal.runs import Checkpoint, CheckpointDamaged, Checkpoints, RunFolder
from shoal.runs.checkpoint_list import step_in
from shoal.runs.folder import CHECKPOINTS, CONFIG
from shoal.runs.settings import SEEDS, choices_of
from shoal.runs.training.command import check_word
from shoal.runs.training.flags import one_of
from shoal.runs.training.loop import saved_settings
from shoal.runs.training.needs import check_that_training_is_installed
from shoal.runs.training.plain_warnings import plain_warnings
from shoal.vector.errors import ConfigurationError, StateError

METHODS = {method.name: method for method in (PPO, META)}
WHICH = ("last", "best")


def evaluate(
    path: Annotated[Path, tyro.conf.Positional],
    episodes: int = 100,
    seed: int = 0,
    checkpoint: Annotated[
        str | None, tyro.conf.arg(metavar=one_of(WHICH), help_behavior_hint="(default: best)")
    ] = None,
    device: Annotated[
        str, tyro.conf.arg(metavar=one_of(choices_of(PPOConfig.model_fields["device"].annotation)))
    ] = "cpu",
    record_video: bool = False,
) -> int:
    """Evaluate a trained policy: on a single environment, with its most likely actions, on seeds of its own.

    Args:
        path: the folder of a run, or of one of its checkpoints.
        episodes: how many to play.
        seed: another one plays other episodes.
        checkpoint: which one of the run. While none has a score, the last one stands for the best, unless that is asked for.
        device: where the network is, wherever it was trained: for one environment the CPU is quick enough.
        record_video: film the first of these episodes, into the run's folder.
    """
    check_that_training_is_installed()
    if episodes < 1:
        raise ConfigurationError(f"episodes must be at least 1, got {episodes}")
    if not 0 <= seed < SEEDS:
        raise ConfigurationError(f"seed must be at least 0 and below {SEEDS}, got {seed}")
    run, named = _run_of(path)
    if checkpoint is not None:
        check_word("--checkpoint", checkpoint, WHICH)
        if named is not None:
            raise ConfigurationError(f"{path} is a checkpoint itself: leave out --checkpoint {checkpoint}")
    with plain_warnings():
        _evaluate(run, named or checkpoint, episodes, seed, device, record_video)
    return 0


def _evaluate(
    run: RunFolder, which: str | Path | None, episodes: int, seed: int, device: str, record_video: bool
) -> None:
    method = METHODS.get(run.made_with("algorithm") or PPO.name, PPO)
    tensors, state, step = _load(Checkpoints(run.path), which)
    settings = method.to_look(saved_settings(method, run), device)
    film = method.film_of(settings, record_video)
    # For whoever reads it from a pipe, a result is one line.
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with method.make(settings) as trainee:
        trainee.load_policy(tensors, state)
        result = trainee.evaluate(episodes=episodes, seed=seed)
        console.print(f"{trainee.goal.env} after {step:,} steps: return {result}")
        if film is not None:
            path = run.path / "videos" / f"step-{step}.mp4"
            film.record(trainee, path, seed)
            console.print(f"filmed the first of them: {path}")


def _run_of(path: Path) -> tuple[RunFolder, Path | None]:
    """The run, and which of its checkpoints, if the path is that of one."""
    whole = Path(os.path.abspath(path))  # so that a dot has a name and a parent, too
    if not (whole / CONFIG).exists():  # for a run may be called anything
        if whole.name == CHECKPOINTS:
            return RunFolder.open(whole.parent), None
        if whole.parent.name == CHECKPOINTS and step_in(whole.name) is not None:
            return RunFolder.open(whole.parent.parent), whole
    return RunFolder.open(path), None


def _load(checkpoints: Checkpoints, which: str | Path | None) -> Checkpoint:
    """The one that was asked for; otherwise the best, or the last if none is the best."""
    if which is not None:
        return checkpoints.load(which)
    try:
        return checkpoints.load("best")
    except CheckpointDamaged:
        raise
    except StateError as error:
        last = checkpoints.load("last")
        note = f"{error}. This is the last one."
        Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(note)
        return last
