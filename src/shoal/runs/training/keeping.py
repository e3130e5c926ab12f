"""What is kept of a run while it goes on: checkpoints, at the right moments.

The best one is the one that did best in an evaluation. Where nothing is evaluated, it is the one with the best mean return of a
hundred episodes: a lucky first episode is no record.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from shoal.runs.checkpoints import Checkpoints
from shoal.runs.durable import reason_of
from shoal.runs.errors import CheckpointNotSaved
from shoal.runs.folder import RunFolder
from shoal.runs.report import FULL_MEAN, Evaluation
from shoal.runs.training.trainee import Method, Trainee
from shoal.vector.errors import ShoalError


class Keeper:
    """Saves a trainee. A disk that refuses is reported and does not end the training."""

    def __init__(self, method: Method, trainee: Trainee, folder: RunFolder, say: Callable[[str], None]) -> None:
        self._method, self._trainee, self._folder, self._say = method, trainee, folder, say
        self._often = trainee.often
        self._checkpoints = Checkpoints(
            folder.path, keep_last=self._often.keep, keep_last_is_called=self._often.keep_is_called
        )
        self._has_complained = False
        self._saved_updates: int | None = None
        best = self._checkpoints.best_score if self._often.evaluate is not None else None
        self._best_evaluation = -float("inf") if best is None else best  # a run that is resumed has a record already

    def note_evaluation(self, evaluation: Evaluation) -> None:
        """Save what did better than ever before."""
        if evaluation.mean > self._best_evaluation:
            self._best_evaluation = evaluation.mean
            self._try_to_save(evaluation.mean)

    def after_update(self) -> None:
        """Save every so often."""
        if self._trainee.updates % self._often.save == 0:
            self._try_to_save(self._mean_return())

    def at_the_end(self) -> Path:
        """Save for the last time, if need be somewhere else; returns the folder of the run in which it is.

        Raises:
            CheckpointNotSaved: there is no place for it.
        """
        if self._saved_updates == self._trainee.updates:
            return self._folder.path
        try:
            self._save(self._checkpoints, self._mean_return())
        except CheckpointNotSaved as error:
            self._say(f"the last state could not be saved where it belongs: {self._complaint(error)}")
            return self._save_elsewhere(error)
        return self._folder.path

    def after_error(self, error: Exception) -> None:
        """Something has ended the training in the middle of a rollout: keep what was learned until then."""
        if not self._trainee.updates or not self._trainee.is_sound:
            return
        if self._saved_updates != self._trainee.updates:
            self._try_to_save(None, f"{type(error).__name__} ended the training in the middle of a rollout")

    def what_is_saved(self) -> str:
        """A sentence on what there is to go back to."""
        try:
            steps = self._checkpoints.steps
        except OSError as error:
            return f"What was saved in {self._checkpoints.path} cannot be read: {reason_of(error)}"
        if not steps:
            return f"Nothing was saved yet: that would have been after {self._often.save} updates"
        return f"The last checkpoint, in {self._checkpoints.path}, is of step {steps[-1]:,}"

    def _mean_return(self) -> float | None:
        report = self._trainee.last_report
        if report is None or self._often.evaluate is not None or report.episodes < FULL_MEAN:
            return None
        return report.mean_return

    def _try_to_save(self, score: float | None, lost: str | None = None) -> None:
        if self._saved_updates == self._trainee.updates:
            return
        try:
            self._save(self._checkpoints, score, lost)
        except CheckpointNotSaved as error:
            self._say(f"training goes on, but: {self._complaint(error)}")

    def _complaint(self, error: CheckpointNotSaved) -> str:
        """The first time with what to do: a disk may stay full for hundreds of checkpoints."""
        is_first, self._has_complained = not self._has_complained, True
        return str(error) if is_first else str(error).partition("\n")[0]

    def _save(self, checkpoints: Checkpoints, score: float | None, lost: str | None = None) -> None:
        trainee = self._trainee
        tensors, state, memory = trainee.save(lost)
        checkpoints.save(trainee.steps, tensors, state, score, memory)
        self._saved_updates, self._has_complained = trainee.updates, False

    def _save_elsewhere(self, problem: CheckpointNotSaved) -> Path:
        """Training may have taken days. Where there is room for it, it is not lost."""
        path = None
        try:
            path = Path(tempfile.mkdtemp(prefix="shoal-saved-"))
            RunFolder.create_at(path, self._trainee.config.model_dump(mode="json"), self._method.name)
            self._save(Checkpoints(path), None)
        except (ShoalError, OSError) as error:
            if path is not None:
                shutil.rmtree(path, ignore_errors=True)
            raise CheckpointNotSaved(
                f"training is over, and what was learned since the last checkpoint could not be saved: {problem}\n"
                f"  Nor could it in the folder for temporary files: {error}"
            ) from error
        return path
