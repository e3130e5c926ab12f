"""What the caller has last seen of each environment, for an episode that ends because it was lost."""

from __future__ import annotations

from typing import Any

from shoal.vector.journal import Journal
from shoal.vector.layout import arranged, loose_leaves
from shoal.vector.messages import Attachment, Outcome


class LastSeen:
    """The last observations: those of fixed size are in the journal, the others are remembered here."""

    def __init__(self, journal: Journal, attachment: Attachment) -> None:
        self._journal = journal
        self._node = attachment.layout.observation
        self._loose: dict[tuple[int, int], Any] = {}

    def note(self, outcome: Outcome) -> None:
        """Remember values without a fixed size."""
        for row, number, value in outcome.loose:
            self._loose[row, number] = value

    def observation(self, row: int) -> Any:
        """An environment's last observation."""
        fixed = self._journal.last_observation(row)
        loose = [self._loose.get((row, leaf.number)) for leaf in loose_leaves(self._node)]
        return arranged(self._node, fixed, loose)
