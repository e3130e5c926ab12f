"""A training run from beginning to end: what people see of it, and what it leaves behind.

::

    runs/<env>__<method>__<seed>__<time>/
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoal.runs.checkpoints import Checkpoints
from shoal.runs.claim import claimed
from shoal.runs.config_file import read_saved_config
from shoal.runs.curve import draw_learning_curve
from shoal.runs.display import Display, open_display
from shoal.runs.errors import CheckpointNotSaved, Diverged
from shoal.runs.folder import RunFolder
from shoal.runs.metrics import MetricsLog, read_metrics
from shoal.runs.report import Report
from shoal.runs.settings import Settings, flat
from shoal.runs.training.keeping import Keeper
from shoal.runs.training.trainee import Film, Method, Shown, Trainee
from shoal.vector.errors import ConfigurationError, ShoalError, StateError


def begin(method: Method, config: Settings, shown: Shown, root: Path = Path("runs"), at: Path | None = None) -> Report:
    """Train from the beginning, in a new folder in ``root``, or in one ``at`` a place of the user's choice."""
    config = method.resolved(config)
    film = method.film_of(config, shown.record_video)
    with method.make(config) as trainee:
        # Only now: an environment that cannot be made leaves no folder behind.
        config = trainee.config
        settings = config.model_dump(mode="json")
        folder = (
            RunFolder.create(root, trainee.goal.env, method.name, trainee.config.seed, settings)
            if at is None
            else RunFolder.create_at(at, settings, method.name)
        )
        with claimed(folder.path) as problem:
            try:
                return _run(method, trainee, folder, config, shown, film, [problem] if problem else [])
            except BaseException:
                if not trainee.updates:  # as of an environment that can be made, but not be used
                    folder.withdraw()
                raise


def resume(method: Method, path: Path, changes: Mapping[str, Any], shown: Shown) -> Report:
    """Go on with a run from its last checkpoint, as if it had never been interrupted."""
    folder = RunFolder.open(path)
    before, config = changed(method, folder, changes)
    film = method.film_of(config, shown.record_video)
    with claimed(folder.path) as unclaimed:  # before it is known which checkpoint is the last
        tensors, state, step = Checkpoints(folder.path).load("last")
        with method.make(config) as trainee:
            notes = [f"resumed at step {step:,}", *([unclaimed] if unclaimed else [])]
            if problem := trainee.load(tensors, state):
                notes.append(problem)
            return _run(method, trainee, folder, before, shown, film, notes)


def saved_settings(method: Method, run: RunFolder) -> Settings:
    """Those of a run that was made in this way."""
    algorithm = run.made_with("algorithm")
    if algorithm not in (None, method.name):
        raise ConfigurationError(
            f"{run.path} holds a run of {algorithm!r}, and {method.verb} goes on with those of {method.name!r}"
        )
    return method.settings.of(read_saved_config(run, method.settings, method.needed))


def changed(method: Method, run: RunFolder, said: Mapping[str, Any]) -> tuple[Settings, Settings]:
    """The settings of a run, and these with what is said now. Refuses what its results depend on."""
    before = saved_settings(method, run)
    after = before.replaced(
        **{name: value for name, value in said.items() if (name, value) not in method.left_to_shoal}
    )
    fixed = [name for name in _differing(before, after) if name not in method.changeable]
    if fixed:
        raise ConfigurationError(
            f"{', '.join(fixed)} cannot be changed when a run is resumed, because its results depend on it; "
            f"what can be: {', '.join(method.changeable)}"
        )
    return before, after


def _differing(before: Settings, after: Settings) -> list[str]:
    ours, theirs = (flat(type(one), one.model_dump()) for one in (before, after))
    return [name for name, value in ours.items() if value != theirs[name]]


def _run(
    method: Method,
    trainee: Trainee,
    folder: RunFolder,
    config: Settings,
    shown: Shown,
    film: Film | None,
    notes: list[str],
) -> Report:
    """``config`` is what the folder says."""
    if trainee.is_done:
        raise StateError(
            f"the run in {folder.path} has reached its goal already; to go on: {_more(method, trainee, folder.path)}"
        )
    often = trainee.often
    with (
        MetricsLog(folder.path, wandb=shown.wandb) as log,
        open_display(replace(trainee.goal, folder=str(folder.path)), shown.display) as screen,
        stop_when_asked(screen) as is_asked,
    ):
        keeper = Keeper(method, trainee, folder, screen.note)
        log.resume_at(trainee.steps)
        for note in [*notes, *_noted(folder, config, trainee.config)]:
            screen.note(note)
        config, advice = trainee.config, ""
        while not trainee.is_done and not is_asked.is_set():
            try:
                report = trainee.train_once()
            except Exception as error:
                keeper.after_error(error)
                if isinstance(error, Diverged):  # whose weights are not saved
                    raise Diverged(f"{error}. {keeper.what_is_saved()}") from error
                raise
            screen.update(report)
            log.write(report.steps, report.metrics())
            if report.advice and not advice:  # once is enough
                screen.note(advice := report.advice)
            if trainee.config is not config:  # something was decided, which is kept with the run
                for note in _noted(folder, config, trainee.config):
                    screen.note(note)
                config = trainee.config
            if often.evaluate is not None and report.updates % often.evaluate == 0:
                _evaluate(trainee, keeper, log, screen, is_asked)
                if film is not None and not is_asked.is_set():
                    _record(film, trainee, folder, screen)
            keeper.after_update()
        if trainee.last_report is None:
            raise StateError("stopped before the first update: there is nothing to save")
        try:
            saved_in = keeper.at_the_end()
        except CheckpointNotSaved:
            screen.finish(trainee.last_report, "training is over, but its result could not be saved")
            raise
        _draw(folder.path, trainee.goal.env)
        if film is not None and not is_asked.is_set():
            _record(film, trainee, folder, screen)
        screen.finish(trainee.last_report, _ending(method, trainee, saved_in))
    return trainee.last_report


def _ending(method: Method, trainee: Trainee, path: Path) -> str:
    """What has happened, and what can be done next."""
    what, go_on = (
        ("Done", _more(method, trainee, path))
        if trainee.is_done
        else ("Stopped and saved", f"{method.verb} --resume {path}")
    )
    return f"{what}. To evaluate it, and to go on:\n  shoal eval {path}\n  {go_on}"  # lines of their own, to be copied


def _more(method: Method, trainee: Trainee, path: Path) -> str:
    """The command that goes on with a run that has reached its goal."""
    return f"{method.verb} --resume {path} {trainee.flag_for_more}"


def _noted(folder: RunFolder, before: Settings, after: Settings) -> list[str]:
    """Write down the settings that are others now; what went wrong with that, if anything."""
    ours, theirs = before.model_dump(mode="json"), after.model_dump(mode="json")
    problems = []
    for name, value in theirs.items():
        if value != ours[name]:
            try:
                folder.note_setting(name, value)
            except ShoalError as error:
                problems.append(f"training goes on, but: {error}")
    return problems


def _evaluate(trainee: Trainee, keeper: Keeper, log: MetricsLog, screen: Display, is_asked: threading.Event) -> None:
    try:
        evaluation = trainee.evaluate(is_asked_to_stop=is_asked.is_set)
    except Exception as error:  # of the environment's, which has nothing to do with those that are trained in
        screen.note(f"there is no evaluation: {type(error).__name__}: {error}")
        return
    screen.note(f"evaluation after {trainee.steps:,} steps: {evaluation}")
    if not is_asked.is_set():
        log.write(trainee.steps, evaluation.metrics())
        keeper.note_evaluation(evaluation)


def _record(film: Film, trainee: Trainee, folder: RunFolder, screen: Display) -> None:
    path = folder.path / "videos" / f"step-{trainee.steps}.mp4"
    try:
        evaluation = film.record(trainee, path, None)
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
