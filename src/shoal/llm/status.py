"""How a trajectory stands, in one word."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Of a trajectory. What failed is no trajectory with a reward of zero: it is to be left out."""

    OK = "ok"
    """It goes on, or the world has ended it."""
    TRUNCATED = "truncated"
    """It was cut off: the actions that it may take are used up, or the world's own limit."""
    ENV_ERROR = "env_error"
    """The world could not be made, or raised."""
    TIMEOUT = "timeout"
    """The world took longer than its deadline, three times."""
    WORKER_DIED = "worker_died"
    """The world has ended its process, and cannot be brought back."""
    CONTEXT_OVERFLOW = "context_overflow"
    """The conversation is longer than the model can read."""
    POLICY_ERROR = "policy_error"
    """The player gave no answer: its server is away, or stays broken."""
    PARSE_ERROR = "parse_error"
    """What the model wrote could not be read."""

    @property
    def is_failure(self) -> bool:
        """Whether it says nothing about the player: its world, a process or a server is to blame."""
        return self in _FAILURES


_FAILURES = frozenset((Status.ENV_ERROR, Status.TIMEOUT, Status.WORKER_DIED, Status.POLICY_ERROR))
