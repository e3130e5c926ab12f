"""What can go wrong with the things that a run leaves behind. All of it belongs to the one tree of Shoal's errors.

    ShoalError
    ├── CheckpointNotSaved                   the disk refused; every former checkpoint is as it was
    └── StateError
        └── CheckpointDamaged                its files are not what was saved

Neither needs to end a training: the first can be caught, and of the second there is usually an earlier checkpoint.
"""

from __future__ import annotations

from shoal.vector.errors import ShoalError, StateError


class CheckpointNotSaved(ShoalError):
    """A checkpoint could not be written. Former ones are intact, and training can go on without it."""


class CheckpointDamaged(StateError):
    """The files of a checkpoint are not those that were saved: one is missing, cut off or changed."""
