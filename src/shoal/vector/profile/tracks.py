"""What everybody was doing at every moment.

The time is cut wherever anybody begins or ends anything. In each piece everybody does one thing, and for who does nothing, what
the others do says why::

    caller     policy      checks    waits ·············    copies     policy
    worker 0   idle        idle      environments  idle     idle       idle
    worker 1   idle        idle      environments ······    idle       idle
               └ policy ┘ └copying┘ └ environment ┘└barrier┘└copying ┘└ policy ...
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from shoal.vector.layout import Array
from shoal.vector.profile.recorder import Kind, Track


class Share(Enum):
    """On what time was spent."""

    ENVIRONMENT = "environments"
    BARRIER = "waiting for the slowest"
    COPYING = "checking, copying, serialising"
    SIGNALLING = "signalling"
    INFOS = "infos and calls"
    MANAGEMENT = "process management"
    POLICY = "policy"


SHARES = list(Share)
_OF_KIND = {
    Kind.ENVIRONMENT: Share.ENVIRONMENT, Kind.INFOS: Share.INFOS, Kind.COPYING: Share.COPYING,
    Kind.SIGNALLING: Share.SIGNALLING, Kind.WAITING: Share.BARRIER, Kind.MANAGEMENT: Share.MANAGEMENT,
    Kind.BUSY: Share.COPYING,
}  # fmt: skip
_NOTHING = 255


class Pieces:
    """The time of a recording, cut into pieces."""

    def __init__(self, caller: Track, workers: Sequence[Track]) -> None:
        tracks = [caller, *workers]
        self.moments = np.unique(np.concatenate([edges for track in tracks for edges in (track.begins, track.ends)]))
        is_recorded = self._is_doing(caller, Kind.WINDOW)
        self.nanoseconds = np.diff(self.moments, append=self.moments[-1:]) * is_recorded
        self.caller_entries = np.sort(caller.begins[caller.kinds == Kind.BUSY])
        """When the caller began to call."""
        self.caller = self._states(caller)
        self.workers = [self._states(track) for track in workers]

    def _is_doing(self, track: Track, kind: Kind) -> Array:
        """In which pieces somebody is doing this."""
        chosen = track.kinds == kind
        depth = np.zeros(len(self.moments), np.int64)
        np.add.at(depth, np.searchsorted(self.moments, track.begins[chosen]), 1)
        np.add.at(depth, np.searchsorted(self.moments, track.ends[chosen]), -1)
        return np.cumsum(depth) > 0

    def _states(self, track: Track) -> Array:
        """What somebody is doing in every piece, as a number of :data:`SHARES`."""
        states = np.full(len(self.moments), _NOTHING, np.uint8)
        for kind, share in reversed(_OF_KIND.items()):
            states[self._is_doing(track, kind)] = SHARES.index(share)
        return states

    def reasons(self) -> list[Array]:
        """What every worker's time was spent on; the caller's own, if there are no workers."""
        policy, barrier, signalling = (SHARES.index(share) for share in (Share.POLICY, Share.BARRIER, Share.SIGNALLING))
        caller = np.where(self.caller == _NOTHING, policy, self.caller)
        if not self.workers:
            # Who has no workers and waits, computes environments' steps somewhere that could not be seen.
            return [np.where(caller == barrier, SHARES.index(Share.COPYING), caller)]
        busy = np.array([states != _NOTHING for states in self.workers])
        anybody = busy.any(axis=0)
        # The caller waits: for those who are at work, or, if nobody is, for word to get through.
        idle = np.where(caller == barrier, np.where(anybody, barrier, signalling), caller)
        return [np.where(states == _NOTHING, idle, states) for states in self.workers]

    def shares(self) -> dict[Share, float]:
        """Of all workers' time, what was spent on what; together it is 1."""
        total = np.zeros(len(SHARES))
        for reasons in self.reasons():
            total += np.bincount(reasons, weights=self.nanoseconds, minlength=len(SHARES))[: len(SHARES)]
        whole = total.sum()
        return dict(zip(SHARES, (total / whole if whole else total).tolist(), strict=True))

    @property
    def seconds(self) -> float:
        """How long was recorded."""
        return float(self.nanoseconds.sum()) / 1e9
