"""A training run from beginning to end: what people see of it, and what it leaves behind.

::

    runs/<env>__ppo__<seed>__<time>/
        config.yaml, versions.json     with which it can be repeated
        metrics.jsonl                  a line for every update
        checkpoints/                   the last ones and the best, to go on from
        curve.png                      what it learned
        videos/                        what it does, if asked for

Ctrl-C stops after the update that is being made, and saves; a second one stops at once. What cannot be written (a full disk, a
broken logger) is said, and training goes on.
"""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoal.ppo.config import PPOConfig, read_config
from shoal.ppo.display import Display, open_display
from shoal.ppo.report import Report
from shoal.ppo.saving import load, state_of, tensors_of
from shoal.ppo.trainer import PPOTrainer, resolved
from shoal.ppo.video import check_that_it_can_be_filmed
from shoal.runs import CheckpointNotSaved, Checkpoints, MetricsLog, RunFolder, draw_learning_curve, read_metrics
from shoal.vector.errors import ConfigurationError, ShoalError

CHANGEABLE = ("num_episodes", "total_steps", "backend", "num_workers", "parallel_start_method", "checkpoint_every",
              "keep_checkpoints", "eval_every", "eval_episodes")  # fmt: skip
"""What may be another when a run is resumed, because results do not depend on it, or only where they end."""


def train(
    config: PPOConfig,
    *,
    root: Path = Path("runs"),
    checkpoint_dir: Path | None = None,
    display: str = "auto",
    wandb: bool = False,
    record_video: bool = False,
) -> Report:
    """Train from the beginning."""
    config = resolved(config)
    if record_video:
        check_that_it_can_be_filmed(config)
    settings = config.model_dump(mode="json")
    folder = (
        RunFolder.create(root, config.env, "ppo", config.seed, settings)
        if checkpoint_dir is None
        else RunFolder.create_at(checkpoint_dir, settings)
    )
    with PPOTrainer(config) as trainer:
        return _run(trainer, folder, display, wandb, record_video, [])


def resume(
    path: Path, *, display: str = "auto", wandb: bool = False, record_video: bool = False, **changes: Any
) -> Report:
    """Go on with a run from its last checkpoint, as if it had never been interrupted."""
    folder = RunFolder.open(path)
    fixed = [name for name in changes if name not in CHANGEABLE]
    if fixed:
        raise ConfigurationError(
            f"{', '.join(fixed)} cannot be changed when a run is resumed, because its results depend on it; "
            f"what can be: {', '.join(CHANGEABLE)}"
        )
    config = PPOConfig.of({**read_config(folder.path / "config.yaml"), **changes})
    if record_video:
        check_that_it_can_be_filmed(config)
    tensors, state, step = Checkpoints(folder.path).load("last")
    with PPOTrainer(config) as trainer:
        notes = [f"resumed at step {step:,}"]
        if problem := load(trainer, tensors, state):
            notes.append(problem)
        return _run(trainer, folder, display, wandb, record_video, notes)


def _run(
    trainer: PPOTrainer, folder: RunFolder, display: str, wandb: bool, record_video: bool, notes: list[str]
) -> Report:
    config = trainer.config
    if folder.read_config().get("overlap") != config.overlap:
        folder.note_setting("overlap", config.overlap)
    checkpoints = Checkpoints(folder.path, keep_last=config.keep_checkpoints)
    goal = replace(trainer.goal, folder=str(folder.path))
    with (
        MetricsLog(folder.path, wandb=wandb) as log,
        open_display(goal, display) as screen,
        stop_when_asked(screen) as is_asked,
    ):
        log.resume_at(trainer.steps)
        for note in notes:
            screen.note(note)
        report, overlap = trainer.last_report, config.overlap
        while not trainer.is_done and not is_asked.is_set():
            report = trainer.train_episode_vectorized()
            screen.update(report)
            log.write(report.steps, report.metrics())
            if trainer.config.overlap != overlap:
                overlap = trainer.config.overlap
                _note_overlap(folder, overlap, screen)
            if config.eval_every is not None and report.updates % config.eval_every == 0:
                evaluation = trainer.evaluate()
                screen.note(f"evaluation after {report.steps:,} steps: {evaluation}")
                log.write(report.steps, {"charts/eval_return": evaluation.mean})
                if record_video:
                    _film(trainer, folder, screen)
            if report.updates % config.checkpoint_every == 0:
                _save(trainer, checkpoints, screen)
        if report is None:
            raise ShoalError(f"the run in {folder.path} has reached its goal already: give it more with --total-steps")
        _save(trainer, checkpoints, screen)
        _draw(folder.path, config.env)
        if record_video:
            _film(trainer, folder, screen)
        ending = "stopped and saved" if is_asked.is_set() else "done"
        screen.finish(
            report, f"{ending}: shoal train --resume {folder.path} goes on, shoal eval {folder.path} evaluates"
        )
    return report


def _note_overlap(folder: RunFolder, is_better: bool | None, screen: Display) -> None:
    """It is decided once, and kept with the run."""
    try:
        folder.note_setting("overlap", is_better)
    except ShoalError as error:
        screen.note(f"training goes on, but: {error}")


def _save(trainer: PPOTrainer, checkpoints: Checkpoints, screen: Display) -> None:
    report = trainer.last_report
    score = None if report is None else report.mean_return
    try:
        checkpoints.save(trainer.steps, tensors_of(trainer), state_of(trainer), score)
    except CheckpointNotSaved as error:
        screen.note(f"training goes on, but: {error}")


def _film(trainer: PPOTrainer, folder: RunFolder, screen: Display) -> None:
    path = folder.path / "videos" / f"step-{trainer.steps}.mp4"
    try:
        evaluation = trainer.record(path)
    except (ShoalError, OSError) as error:
        screen.note(f"there is no film: {error}")
    else:
        screen.note(f"filmed an episode with return {evaluation.mean:.2f}: {path}")


def _draw(folder: Path, title: str) -> None:
    try:
        draw_learning_curve(read_metrics(folder / "metrics.jsonl"), folder / "curve.png", title)
    except (ShoalError, OSError) as error:
        warnings.warn(f"there is no picture of the learning curve: {error}", RuntimeWarning, stacklevel=2)


@contextmanager
def stop_when_asked(screen: Display) -> Iterator[threading.Event]:
    """The first Ctrl-C is noted, the second one is as always."""
    is_asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield is_asked
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        is_asked.set()
        signal.signal(signal.SIGINT, before)
        screen.note("stopping after this update; Ctrl-C again stops at once")

    signal.signal(signal.SIGINT, note)
    try:
        yield is_asked
    finally:
        signal.signal(signal.SIGINT, before)
