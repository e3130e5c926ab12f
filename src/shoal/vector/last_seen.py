"""What the caller has last seen of each environment, for an episode that ends because it was lost."""

from __future__ import annotations

from typing import Any

from shoal.vector.footprint import footprint
from shoal.vector.journal import Journal
from shoal.vector.layout import arranged, loose_leaves
from shoal.vector.loose import put_in
from shoal.vector.messages import Attachment, Outcome


class LastSeen:
    """The last observations: those of fixed size are in the journal, the others are remembered here."""

    def __init__(self, journal: Journal, attachment: Attachment) -> None:
        self._journal = journal
        self._node = attachment.layout.observation
        self._loose: list[list[Any]] = [[None] * attachment.num_envs for _ in loose_leaves(self._node)]

    def note(self, outcome: Outcome) -> None:
        """Remember values without a fixed size."""
        put_in(self._loose, outcome.loose)

    @property
    def nbytes(self) -> int:
        """About how much memory they take."""
        return footprint(self._loose)

    def adopt(self, other: LastSeen) -> None:
        """Go on where another one was."""
        self._loose = other._loose

    def observation(self, row: int) -> Any:
        """An environment's last observation."""
        fixed = self._journal.last_observation(row)
        return arranged(self._node, fixed, [values[row] for values in self._loose])
