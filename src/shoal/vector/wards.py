"""What the supervisor knows of its workers, and what it counts."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from enum import Enum

from shoal.vector.messages import Death, Op
from shoal.vector.starts import Fault
from shoal.vector.suspicion import Suspicion


class Phase(Enum):
    """How far a worker is."""

    WELL = "well"
    MAKING = "making its environments"
    ATTACHING = "preparing"
    REPLAYING = "replaying"


@dataclass
class Stats:
    """What has happened since the environments were made."""

    restarts: int = 0
    """Workers that were replaced because they had died or hung."""
    planned_restarts: int = 0
    """Workers that were replaced because they had become too large or too old."""
    replayed_steps: int = 0
    """Commands that were done again, counted once for each environment."""
    lost_episodes: int = 0
    """Episodes that could not be brought back, and ended truncated."""
    dropped_replies: int = 0
    """Messages that came too late to matter."""
    seconds_lost: float = 0.0
    """From deaths to the end of the replays."""
    group_comparisons: int = 0
    """How often a member of a group was compared with the first that had begun with it."""
    group_mismatches: int = 0
    """How often the two did not start alike."""


@dataclass(frozen=True)
class Deadlines:
    """Seconds that environments may take; ``None`` for as long as they like."""

    construct: float | None = None
    reset: float | None = None
    step: float | None = None
    call: float | None = None

    def __bool__(self) -> bool:
        return any(limit is not None for limit in (self.construct, self.reset, self.step, self.call))


@dataclass
class Ward:
    """One worker, as its supervisor sees it."""

    phase: Phase = Phase.WELL
    deaths: list[str] = field(default_factory=list)
    """Without progress in between: what each of them looked like."""
    num_late: int = 0
    """How many of these were for taking too long to make environments."""
    suspicion: Suspicion = field(default_factory=Suspicion)
    """Which of its environments ends it."""
    died_at: float = 0.0
    restored_at: float | None = None
    """When its environments were last brought back, if they have not got further since."""
    is_leaving: bool = False
    """Whether it was asked to end, to be replaced."""
    late: str = ""
    """Why it was ended, if it was because it took too long."""
    awaits: int = 0
    """The sequence number of the supervisor's own command that has not been answered."""
    asked_at: float = 0.0
    """When it was last given work, or last finished a part of it."""
    under_way: int = 0
    """How many answers are expected from it."""
    deadline: float | None = None
    """For what it is doing ..."""
    pauses: float = 0.0
    """... without pauses that it was told to make."""
    op: Op | None = None
    """What it was last asked, where there are deadlines."""
    episodes: int = 0
    """That have ended in it, where that is counted."""
    may_retire: bool = True
    """Whether it takes less memory than allowed when it is new."""
    history_began: int = -1
    """The first command that its last replacement for the sake of memory had to repeat."""
    is_known_to_grow: bool = False
    """Whether it was said that it is too large."""

    def note_progress(self) -> None:
        """It has got further: what its deaths looked like until now does not matter any more."""
        self.deaths.clear()
        self.suspicion.clear()
        self.num_late, self.restored_at = 0, None


def fault_info(death: Death, report: str, late: str) -> Fault:
    """What the caller finds in ``info["fault"]``."""
    code = death.exit_code
    name = None
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = str(-code)
    return Fault(kind="hung" if late else "died", signal=name, exit_code=code, message=report)
