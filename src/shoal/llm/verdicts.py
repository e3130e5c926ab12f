"""What a grading comes to: a value, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal.llm.status import Status


class Verdict(NamedTuple):
    """Of one grading. A failure has no value: it is not a reward of zero."""

    value: Any
    """What the function returned; ``None`` if it failed."""
    status: Status
    """``ok``, ``timeout``, ``worker_died``, or ``env_error`` if the function raised."""
    error: str
    """What is known of a failure; empty if there is none."""
    seconds: float
    """From the start on a worker to the verdict."""

    @property
    def is_failure(self) -> bool:
        """Whether there is no value."""
        return self.status.is_failure


@dataclass
class GraderStats:
    """What has come of all gradings until now."""

    ok: int = 0
    timeout: int = 0
    worker_died: int = 0
    env_error: int = 0
    """The function raised, or something could not be sent."""
    begun_again: int = 0
    """Gradings that met the memory limit in a worker that had graded others before, and were repeated in a new one."""

    @property
    def failures(self) -> int:
        """Gradings without a value."""
        return self.timeout + self.worker_died + self.env_error

    def number(self, status: Status) -> int:
        """How many have had this status."""
        return int(getattr(self, status.value))

    def count(self, status: Status) -> None:
        """Note one more."""
        setattr(self, status.value, self.number(status) + 1)
