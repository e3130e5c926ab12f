"""What happened in a trial, as plain data that goes to JSON as it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.faults.diary import Reading, Stage


@dataclass
class Record:
    """One fault on one library."""

    library: str
    fault: str
    fired: bool = False
    """Whether the fault has happened at all."""
    hung: list[str] = field(default_factory=list)
    """The stages that did not end in time; twice if Ctrl-C did not end them either."""
    stepping: dict[str, Any] = field(default_factory=dict)
    """Of the rollout: the error, if there was one, what was different, and how long it took."""
    answering: dict[str, Any] = field(default_factory=dict)
    """The same of what was done about the error."""
    closing: dict[str, Any] = field(default_factory=dict)
    """How long it took, the error, and how many processes with environments were there a second later."""
    left_after_exit: int = 0
    """Processes of any kind, a second after the caller had ended."""
    processes: int = 0
    """Processes besides the caller when it was killed, in faults that kill it."""
    left_at_first: int = 0
    """How many of them there were a second later."""
    left_in_the_end: int = 0
    """And ten seconds later."""
    cause_in_log: bool = False
    """Whether the reason was printed, if not raised."""
    problem: str | None = None
    """Why there is no result."""

    def take_in(self, reading: Reading) -> None:
        self.stepping = reading.found.get(Stage.STEPPING, {})
        self.answering = reading.found.get(Stage.ANSWERING, {})
        self.closing = reading.found.get(Stage.CLOSING, {})
