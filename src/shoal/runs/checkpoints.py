"""The checkpoints of a run: the last few and the best, each of them whole.

How one is saved:

    1. write ``.saving-step_000012345``        its files, forced to the disk
    2. rename it to ``step_000012345``         from here on it is the last one
    3. for each that is not kept any more: rename it to ``.removing-…``, then delete that

Whoever is killed, or finds the disk full, leaves all former checkpoints as they were before 2, and the new one after it. What
begins with a dot is no checkpoint: the next save clears it away. Loading changes nothing, so that a run can be looked at
while it is training.
"""

from __future__ import annotations

import errno
import math
import operator
import os
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from shoal.runs import tensor_bytes
from shoal.runs.checkpoint_files import Checkpoint, Contents, Heading, contents_of, read_checkpoint, write_contents
from shoal.runs.checkpoint_list import CheckpointList, Listing
from shoal.runs.durable import reason_of, sync_folder
from shoal.runs.errors import CheckpointDamaged, CheckpointNotSaved
from shoal.runs.folder import CHECKPOINTS
from shoal.runs.memory_file import MEMORY
from shoal.vector.errors import ConfigurationError, StateError

if TYPE_CHECKING:
    import torch

SAVING, REMOVING = ".saving-", ".removing-"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Checkpoints:
    """Saves and loads the checkpoints of one run. Needs the extra ``train``.

    Args:
        folder: that of the run.
        keep_last: how many to keep of those that were saved last.
        keep_best: whether to keep the one with the highest score too.
        keep_last_is_called: the name of ``keep_last`` where the user gives it, for advice.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        keep_last: int = 3,
        keep_best: bool = True,
        keep_last_is_called: str = "keep_last",
    ) -> None:
        if not isinstance(keep_last, int) or keep_last < 1:
            raise ConfigurationError(f"keep_last must be a whole number from 1 on, got {keep_last!r}")
        tensor_bytes.check_installed()
        self.path = Path(folder) / CHECKPOINTS
        self._list = CheckpointList(self.path)
        self._keep_last = keep_last
        self._keep_best = keep_best
        self._keep_last_is_called = keep_last_is_called

    @property
    def steps(self) -> tuple[int, ...]:
        """Of the checkpoints that are there, in the order in which they were saved."""
        return tuple(one.heading.step for one in self._list.look().saved)

    @property
    def best_score(self) -> float | None:
        """Of the checkpoints that are there; ``None`` if none of them has one."""
        best = self._list.look().best()
        return None if best is None else best.heading.score

    # -- saving --------------------------------------------------------------------------------------------------

    def save(
        self,
        step: int,
        tensors: Mapping[str, torch.Tensor],
        state: Mapping[str, Any],
        score: float | None = None,
        memory: Mapping[str, torch.Tensor] = MappingProxyType({}),
    ) -> Path:
        """Save a checkpoint; returns its folder. When it returns, the checkpoint survives a crash of the machine.

        ``memory`` holds tensors that are too large to be kept more than once: those of former checkpoints are removed. Loaded,
        they are among the other tensors.

        Raises:
            CheckpointNotSaved: the disk is full, or refuses for another reason. Former checkpoints are intact.
        """
        step, score = _checked_step(step), _checked_score(score)
        listing, size = Listing([], []), 0
        try:
            listing = self._list.look()
            contents = contents_of(Heading(listing.next_number(), step, score), tensors, state, memory)
            size = contents.size
            os.makedirs(self.path, exist_ok=True)
            self._clear_away_leftovers()
            target = self.path / self._list.free_name(step)
            self._write(target, contents)
        except OSError as error:
            raise self._not_saved(step, size, listing, error) from error
        try:
            self._remove_those_not_kept()
        except OSError as error:
            message = f"old checkpoints in {self.path} could not be removed: {reason_of(error)}. They take up room."
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        return target

    def _write(self, target: Path, contents: Contents) -> None:
        unfinished = self.path / f"{SAVING}{target.name}"
        try:
            write_contents(unfinished, contents)
            os.rename(unfinished, target)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)  # makes room on a full disk
            raise
        sync_folder(self.path)

    def _clear_away_leftovers(self) -> None:
        for path in self.path.iterdir():
            if path.name.startswith((SAVING, REMOVING)):
                shutil.rmtree(path, ignore_errors=True)

    def _remove_those_not_kept(self) -> None:
        listing = self._list.look()
        newest_of_steps = {one.heading.step: one for one in listing.saved}
        kept = {
            one.path for one in sorted(newest_of_steps.values(), key=lambda one: one.heading.number)[-self._keep_last :]
        }
        if self._keep_best and (best := listing.best()):
            kept.add(best.path)
        for one in listing.saved:
            if one.path not in kept:
                # Under another name first: a checkpoint that is half deleted must not look like one.
                doomed = one.path.with_name(f"{REMOVING}{one.path.name}")
                os.rename(one.path, doomed)
                shutil.rmtree(doomed)
            elif one.path != listing.saved[-1].path:
                (one.path / MEMORY).unlink(missing_ok=True)

    def _not_saved(self, step: int, size: int, listing: Listing, error: OSError) -> CheckpointNotSaved:
        if error.errno in FULL:
            remedy = f"make room on the disk (the checkpoint needs {size / 1e6:,.1f} MB)"
            if self._keep_last > 1:
                remedy += f", or lower {self._keep_last_is_called}"
        else:
            remedy = f"see that {self.path} can be written to"
        former = f"the last one is {listing.saved[-1].path.name}" if listing.saved else "there is none yet"
        return CheckpointNotSaved(
            f"the checkpoint of step {step:,} could not be saved to {self.path}: {reason_of(error)}.\n"
            f"  Former checkpoints are intact: {former}. Training can go on.\n"
            f"  What to do: {remedy}; the next save will try again."
        )

    # -- loading -------------------------------------------------------------------------------------------------

    def load(self, which: int | Literal["last", "best"] | str | os.PathLike[str] = "last") -> Checkpoint:
        """Load one: that of a step, the last, the best, or the one in a folder.

        If the last one is damaged, the one before it is loaded, with a warning.

        Raises:
            CheckpointDamaged: its files are not what was saved.
            StateError: there is no such checkpoint.
        """
        try:
            listing = self._list.look()
        except OSError as error:
            raise StateError(f"the checkpoints in {self.path} cannot be read: {reason_of(error)}") from error
        if which == "last":
            return self._load_last(listing)
        path = self._path_of(which, listing)
        others = _others(path, listing)
        if not path.is_dir():
            raise StateError(f"there is no checkpoint {path}. {others}")
        try:
            return read_checkpoint(path)
        except CheckpointDamaged as error:
            raise CheckpointDamaged(f"{error}. {others}") from error

    def _load_last(self, listing: Listing) -> Checkpoint:
        damaged: list[str] = []
        # Those whose headings cannot be read may have been the last ones, so they come first.
        for path in [*listing.damaged, *(one.path for one in reversed(listing.saved))]:
            try:
                checkpoint = read_checkpoint(path)
            except CheckpointDamaged as error:
                if path.is_dir():  # and not removed since, by the run that goes on
                    damaged.append(str(error))
                continue
            if damaged:
                message = f"{'; '.join(damaged)}. Going on with {path.name}, which is whole."
                warnings.warn(message, RuntimeWarning, stacklevel=3)
            return checkpoint
        if damaged:
            raise CheckpointDamaged(f"{'; '.join(damaged)}. There is no other.")
        raise StateError(f"there is no checkpoint in {self.path}: nothing was saved yet")

    def _path_of(self, which: int | str | os.PathLike[str], listing: Listing) -> Path:
        if which == "best":
            best = listing.best()
            if best is None:
                reason = "no checkpoint has a score" if listing.saved else "nothing was saved yet"
                raise StateError(f"there is no best checkpoint in {self.path}: {reason}")
            return best.path
        if isinstance(which, str | os.PathLike):
            path = Path(which)
            return path if path.is_dir() else self.path / path  # a name, as errors list them, will do
        step = _checked_step(which)
        found = listing.of_step(step)
        if found is None:
            raise StateError(f"there is no checkpoint of step {step:,} in {self.path}. {_others(None, listing)}")
        return found


def _others(path: Path | None, listing: Listing) -> str:
    names = [one.path.name for one in listing.saved if one.path != path]
    return f"Others that are there: {', '.join(names)}." if names else "There is no other."


def _checked_step(step: int) -> int:
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if number < 0:
        raise ConfigurationError(f"a step is a whole number from 0 on, got {step!r}")
    return number


def _checked_score(score: float | None) -> float | None:
    """What is not a number can be compared with nothing."""
    return None if score is None or math.isnan(score) else float(score)
