"""What can go wrong with a run and with what it leaves behind. All of it belongs to the one tree of Shoal's errors.

    ShoalError
    ├── CheckpointNotSaved                   the disk refused; every former checkpoint is as it was
    └── StateError
        ├── CheckpointDamaged                its files are not what was saved
        └── Diverged                         nothing more can be learned from here

None of them needs to be the end: the first can be caught, and of the others there is usually an earlier checkpoint.
"""

from __future__ import annotations

from shoal.vector.errors import ShoalError, StateError


class CheckpointNotSaved(ShoalError):
    """A checkpoint could not be written. Former ones are intact, and training can go on without it."""


class CheckpointDamaged(StateError):
    """The files of a checkpoint are not those that were saved: one is missing, cut off or changed."""


class Diverged(StateError):
    """The weights are no numbers any more: they are not worth saving."""
