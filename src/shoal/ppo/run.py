"""A training run from beginning to end: what people see of it, and what it leaves behind.

::

    runs/<env>__ppo__<seed>__<time>/
        config.yaml, versions.json     with which it can be repeated
        metrics.jsonl                  a line for every update
        checkpoints/                   the last ones and the best, to go on from
        curve.png                      what it learned
        videos/                        what it does, if asked for

Ctrl-C (or SIGTERM) stops after the update that is being made, and saves; a second one stops at once. What cannot be written (a
full disk, a broken logger) is said, and training goes on. What is kept, and when, is said in ``keeping.py``.
"""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoal.ppo.config import PPOConfig
from shoal.ppo.config_file import read_saved_config
from shoal.ppo.display import Display, open_display
from shoal.ppo.keeping import Keeper
from shoal.ppo.report import Report
from shoal.ppo.saving import load
from shoal.ppo.trainer import PPOTrainer, resolved
from shoal.ppo.updating import Diverged
from shoal.ppo.video import check_that_it_can_be_filmed
from shoal.runs import CheckpointNotSaved, Checkpoints, MetricsLog, RunFolder, draw_learning_curve, read_metrics
from shoal.runs.claim import claimed
from shoal.vector.errors import ConfigurationError, ShoalError, StateError

CHANGEABLE = ("num_episodes", "total_steps", "backend", "num_workers", "parallel_start_method", "checkpoint_every",
              "keep_checkpoints", "eval_every", "eval_episodes", "eval_max_steps")  # fmt: skip
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
    with PPOTrainer(config) as trainer:
        # Only now: an environment that cannot be made leaves no folder behind.
        settings = trainer.config.model_dump(mode="json")
        folder = (
            RunFolder.create(root, config.env, "ppo", config.seed, settings)
            if checkpoint_dir is None
            else RunFolder.create_at(checkpoint_dir, settings)
        )
        with claimed(folder.path) as problem:
            try:
                return _run(trainer, folder, display, wandb, record_video, [problem] if problem else [])
            except BaseException:
                if not trainer.updates:  # as of an environment that can be made, but not be used
                    folder.withdraw()
                raise


def resume(
    path: Path, *, display: str = "auto", wandb: bool = False, record_video: bool = False, **changes: Any
) -> Report:
    """Go on with a run from its last checkpoint, as if it had never been interrupted."""
    folder = RunFolder.open(path)
    check_that_they_can_be_changed(changes)
    config = PPOConfig.of({**read_saved_config(folder), **changes})
    if record_video:
        check_that_it_can_be_filmed(config)
    with claimed(folder.path) as unclaimed:  # before it is known which checkpoint is the last
        tensors, state, step = Checkpoints(folder.path).load("last")
        with PPOTrainer(config) as trainer:
            notes = [f"resumed at step {step:,}", *([unclaimed] if unclaimed else [])]
            if problem := load(trainer, tensors, state):
                notes.append(problem)
            for name, value in changes.items():
                notes += _noted(folder, name, value)
            return _run(trainer, folder, display, wandb, record_video, notes)


def check_that_they_can_be_changed(names: Iterable[str]) -> None:
    """Refuse settings on which the results of a run depend that has begun with others."""
    fixed = [name for name in names if name not in CHANGEABLE]
    if fixed:
        raise ConfigurationError(
            f"{', '.join(fixed)} cannot be changed when a run is resumed, because its results depend on it; "
            f"what can be: {', '.join(CHANGEABLE)}"
        )


def _run(
    trainer: PPOTrainer, folder: RunFolder, display: str, wandb: bool, record_video: bool, notes: list[str]
) -> Report:
    config = trainer.config
    if trainer.is_done:
        raise StateError(
            f"the run in {folder.path} has reached its goal already; to go on: {_more(trainer, folder.path)}"
        )
    with (
        MetricsLog(folder.path, wandb=wandb) as log,
        open_display(replace(trainer.goal, folder=str(folder.path)), display) as screen,
        stop_when_asked(screen) as is_asked,
    ):
        keeper = Keeper(trainer, folder, screen.note)
        log.resume_at(trainer.steps)
        for note in [*notes, *_noted(folder, "overlap", config.overlap)]:
            screen.note(note)
        overlap = config.overlap
        while not trainer.is_done and not is_asked.is_set():
            try:
                report = trainer.train_episode_vectorized()
            except Exception as error:
                keeper.after_error(error)
                if isinstance(error, Diverged):  # whose weights are not saved
                    raise Diverged(f"{error}. {keeper.what_is_saved()}") from error
                raise
            screen.update(report)
            log.write(report.steps, report.metrics())
            if trainer.config.overlap != overlap:  # it is decided once, and kept with the run
                overlap = trainer.config.overlap
                for note in _noted(folder, "overlap", overlap):
                    screen.note(note)
            if config.eval_every is not None and report.updates % config.eval_every == 0:
                _evaluate(trainer, keeper, log, screen, is_asked)
                if record_video and not is_asked.is_set():
                    _film(trainer, folder, screen)
            keeper.after_update()
        if trainer.last_report is None:
            raise StateError("stopped before the first update: there is nothing to save")
        try:
            saved_in = keeper.at_the_end()
        except CheckpointNotSaved:
            screen.finish(trainer.last_report, "training is over, but its result could not be saved")
            raise
        _draw(folder.path, config.env)
        if record_video and not is_asked.is_set():
            _film(trainer, folder, screen)
        screen.finish(trainer.last_report, _ending(trainer, saved_in, is_stopped=not trainer.is_done))
    return trainer.last_report


def _ending(trainer: PPOTrainer, path: Path, *, is_stopped: bool) -> str:
    """What has happened, and what can be done next."""
    what, go_on = (
        ("Stopped and saved", f"shoal train --resume {path}") if is_stopped else ("Done", _more(trainer, path))
    )
    return f"{what}. To evaluate it, and to go on:\n  shoal eval {path}\n  {go_on}"  # lines of their own, to be copied


def _more(trainer: PPOTrainer, path: Path) -> str:
    """The command that goes on with a run that has reached its goal."""
    config = trainer.config
    flag, goal = (
        ("--num-episodes", config.num_episodes)
        if config.num_episodes is not None and trainer.episodes >= config.num_episodes
        else ("--total-steps", config.total_steps)
    )
    return f"shoal train --resume {path} {flag} {2 * (goal or 0)}"


def _noted(folder: RunFolder, name: str, value: Any) -> list[str]:
    """Write a setting down where it is another; what went wrong with that, if anything."""
    try:
        if folder.read_config().get(name) != value:
            folder.note_setting(name, value)
    except ShoalError as error:
        return [f"training goes on, but: {error}"]
    return []


def _evaluate(trainer: PPOTrainer, keeper: Keeper, log: MetricsLog, screen: Display, is_asked: threading.Event) -> None:
    try:
        evaluation = trainer.evaluate(is_asked_to_stop=is_asked.is_set)
    except Exception as error:  # of the environment's, which has nothing to do with those that are trained in
        screen.note(f"there is no evaluation: {type(error).__name__}: {error}")
        return
    screen.note(f"evaluation after {trainer.steps:,} steps: {evaluation}")
    if not is_asked.is_set():
        log.write(trainer.steps, {"charts/eval_return": evaluation.mean})
        keeper.note_evaluation(evaluation)


def _film(trainer: PPOTrainer, folder: RunFolder, screen: Display) -> None:
    path = folder.path / "videos" / f"step-{trainer.steps}.mp4"
    try:
        evaluation = trainer.record(path)
    except Exception as error:  # whatever an environment or a codec may raise, it is only the film
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
    """The first Ctrl-C is noted, and so is the signal with which a job scheduler ends a program; the second is as always."""
    is_asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield is_asked
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(_number: int, _frame: Any) -> None:
        is_asked.set()
        give_back()
        screen.note("stopping after this update; Ctrl-C again stops at once")

    for number in before:
        signal.signal(number, note)
    try:
        yield is_asked
    finally:
        give_back()
