"""First come, first served: environments that were sent off, each for itself, and those that are back.

::

    idle ── send, send_reset ──▶ under way ── done ──▶ arrived ── recv ──▶ idle

Who arrives first depends on the machine. So that a run can be repeated, what was handed over can be recorded, and a
recording played back: then every ``recv`` waits for exactly those that it handed over the first time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from shoal.vector.errors import AlreadyPending, ConfigurationError, NothingPending, StateError, WaitTimeout
from shoal.vector.halves import Half
from shoal.vector.messages import NOTHING, Arrival, Arrivals, Outcome, apart
from shoal.vector.pool import Pool

Recording = list[list[int]]
"""What every ``recv`` handed over: the environments, in order."""


class Flights:
    """Which environments are under way, and which have arrived."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._halves: dict[int, Half] = {}
        """Those that were sent off as such, until somebody asks for their environments one by one."""
        self._each_under_way: set[int] = set()
        self._each_arrived: dict[int, Outcome] = {}
        """In the order of their arrival."""
        self._failed: set[int] = set()
        """Those of them that raised, so that nobody has to look through all."""
        self._begun: set[int] = set()
        """Those of them that were sent off to begin an episode."""
        self._recording: Recording | None = None
        self._to_replay: deque[list[int]] = deque()
        self._replayed: list[int] | None = None
        """What was last handed over, if that was played back."""

    def take_over(self, other: Flights) -> None:
        """Go on where another one was, of which nobody is under way."""
        self._recording, self._to_replay = other._recording, other._to_replay
        self._each_arrived, self._begun, self._failed = other._arrived, other._begun, other._failed

    @property
    def _under_way(self) -> set[int]:
        """Who is, environment by environment, also of halves."""
        self._take_apart()
        return self._each_under_way

    @property
    def _arrived(self) -> dict[int, Outcome]:
        """Who has, environment by environment, also of halves."""
        self._take_apart()
        return self._each_arrived

    def _take_apart(self, rows: Collection[int] | None = None) -> None:
        """From now on, the environments of those halves that have any of these are looked at one by one."""
        if not self._halves:
            return
        with self._pool.access:
            for half in [*self._halves.values()]:
                if rows is None or not half.members.isdisjoint(rows):
                    del self._halves[half.number]
                    if half.has_landed:
                        self._each_arrived.update(apart(half.outcome, half.rows))
                        self._failed.update(failure.env_index for failure in half.outcome.failures)
                    else:
                        self._each_under_way.update(half.rows)

    def could_send(self, half: Half) -> bool:
        """Whether this half may be sent off as such: all of it is idle, and nobody keeps record."""
        return (
            half.number not in self._halves
            and (not self._each_under_way or self._each_under_way.isdisjoint(half.rows))
            and (not self._each_arrived or self._each_arrived.keys().isdisjoint(half.rows))
            and self._recording is None
            and not self._to_replay
        )

    def send_half(self, half: Half) -> None:
        """It has been sent off."""
        half.has_landed = False
        self._halves[half.number] = half

    def has_sent(self, half: Half) -> bool:
        """Whether it was sent off as a half, is not handed over, and nobody has asked for its environments one by one."""
        return half.number in self._halves

    def hand_over_half(self, half: Half) -> None:
        """It is handed over as a whole."""
        del self._halves[half.number]

    def __bool__(self) -> bool:
        return bool(self._halves or self._each_under_way or self._each_arrived)

    def not_handed_over(self) -> list[int]:
        """All that have been sent and not received."""
        return sorted([*self._under_way, *self._arrived])

    @property
    def num_under_way(self) -> int:
        """How many have been sent and not received."""
        return len(self._under_way) + len(self._arrived)

    def check_departure(self, rows: Iterable[int]) -> None:
        """Refuse environments that are not idle."""
        rows = list(rows)
        self._take_apart(rows)
        busy = [row for row in rows if row in self._each_under_way or row in self._each_arrived]
        if busy:
            raise AlreadyPending(
                f"environments {busy} have been sent and not received. Call `recv` until they are back. "
                "Nothing was sent.",
                "send",
            )

    def depart(self, rows: Iterable[int], *, begins: bool = False) -> None:
        """These have been sent off, to take a step or to begin an episode."""
        self._each_under_way.update(rows)
        if begins:
            self._begun.update(rows)

    def look(self, timeout: float | None = 0.0, wanted: int = 1) -> None:
        """See who has arrived, waiting for ``timeout`` seconds if nobody has, or not so many as are wanted."""
        with self._pool.access:
            self._note(self._pool.arrivals(timeout, wanted))

    def drop(self, rows: list[int]) -> None:
        """Wait for these, and hand them over to nobody."""
        self._take_apart(rows)
        while self._missing(rows):
            self.look(None, self._missing(rows))
        for row in rows:
            self._each_arrived.pop(row, None)
        self._failed.difference_update(rows)

    def land(self) -> None:
        """Wait until nobody is under way; whoever has arrived stays to be received."""
        while self._under_way:
            self.look(None, len(self._under_way))

    def _note(self, arrivals: Iterable[Arrival | Arrivals]) -> None:
        for arrival in arrivals:
            if isinstance(arrival, Arrivals):
                self._take_apart(arrival.rows)
                self._each_under_way.difference_update(arrival.rows)
                self._each_arrived.update(dict.fromkeys(arrival.rows, NOTHING))
            else:
                self._take_apart([arrival.env_index])
                self._each_under_way.discard(arrival.env_index)
                self._each_arrived[arrival.env_index] = arrival.outcome
                if arrival.outcome.failures:
                    self._failed.add(arrival.env_index)

    def has_arrived(self, row: int) -> bool:
        """Whether ``recv`` could hand it over without waiting."""
        return row in self._arrived

    def wanted(self, min_envs: int, max_envs: int | None) -> Wanted:
        """What a ``recv`` with these arguments waits for; refuses what can never come."""
        for name, value in (("min_envs", min_envs), ("max_envs", max_envs)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigurationError(f"{name} must be a whole number of at least 1, got {value!r}")
        if max_envs is not None and max_envs < min_envs:
            raise ConfigurationError(f"max_envs={max_envs} is less than min_envs={min_envs}")
        if not self:
            raise NothingPending("`recv` was called, but no environment has been sent. Call `send` first.", "recv")
        if self._to_replay:
            return self._wanted_again()
        if min_envs > self.num_under_way:
            raise NothingPending(
                f"`recv(min_envs={min_envs})` would wait for ever: only {self.num_under_way} environments have been sent "
                "and not received.",
                "recv",
            )
        return Wanted(min_envs, max_envs, None)

    def wanted_exactly(self, rows: list[int]) -> Wanted:
        """What a ``recv`` of these environments waits for."""
        self._take_apart(rows)
        missing = self._not_sent(rows)
        if missing:
            raise NothingPending(
                f"`recv` would wait for ever for environments {missing}, which have not been sent.", "recv"
            )
        if self._to_replay and self._to_replay[0] != rows:
            raise StateError(
                f"the recording hands over environments {self._to_replay[0]} next, but {rows} are asked for: this program "
                "does not do what the recorded one did"
            )
        return Wanted(len(rows), None, rows, is_chosen=True)

    def _wanted_again(self) -> Wanted:
        exactly = self._to_replay[0]
        self._take_apart(exactly)
        missing = self._not_sent(exactly)
        if missing:
            raise StateError(
                f"the recording hands over environments {exactly} next, but {missing} have not been sent: this program "
                "does not do what the recorded one did"
            )
        return Wanted(len(exactly), None, exactly)

    def _not_sent(self, rows: list[int]) -> list[int]:
        under_way, arrived = self._each_under_way, self._each_arrived
        return [row for row in rows if row not in under_way and row not in arrived]

    def is_enough(self, wanted: Wanted) -> bool:
        """Whether ``recv`` may return, or has to raise what an environment raised."""
        if self._failed_rows(wanted):
            return True
        if wanted.exactly is not None:
            return all(row in self._each_arrived for row in wanted.exactly)
        return len(self._arrived) >= wanted.min_envs

    def wait(self, wanted: Wanted, timeout: float | None) -> None:
        """Until enough have arrived; nothing is lost if that takes longer than ``timeout`` seconds."""
        if wanted.exactly is None or not self.is_enough(wanted):
            self.look()
        end = None if timeout is None else time.monotonic() + timeout
        while not self.is_enough(wanted):
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise WaitTimeout(self.why_timed_out(wanted, timeout))
            self.look(
                left, wanted.min_envs - len(self._arrived) if wanted.exactly is None else self._missing(wanted.exactly)
            )

    def _missing(self, rows: list[int]) -> int:
        return len(self._each_under_way.intersection(rows))

    def why_timed_out(self, wanted: Wanted, timeout: float | None) -> str:
        """For the exception."""
        if wanted.is_chosen and wanted.exactly is not None:
            there = len(wanted.exactly) - self._missing(wanted.exactly)
            return (
                f"environments {wanted.exactly} have been waited for {timeout:g} s, and {there} of them have arrived "
                f"(busy now: {self._pool.busy()}). Nothing is lost: wait again."
            )
        return (
            f"`recv` has waited {timeout:g} s: {len(self._arrived)} of the {wanted.min_envs} environments it waits for have "
            f"arrived (busy now: {self._pool.busy()}). Nothing is lost: call `recv` again, or with a smaller min_envs."
        )

    def _failed_rows(self, wanted: Wanted) -> list[int]:
        """Who raised, of those that concern the caller."""
        if not self._failed:
            return []
        failed = [row for row in self._each_arrived if row in self._failed]
        return [row for row in failed if not wanted.is_chosen or row in (wanted.exactly or ())]

    def failed(self, wanted: Wanted) -> Outcome | None:
        """Take out those that raised; ``None`` if nobody did."""
        rows = self._failed_rows(wanted)
        if not rows:
            return None
        together = Outcome.empty()
        for row in rows:
            together.failures.extend(self._each_arrived.pop(row).failures)
            self._failed.discard(row)
        return together

    def have_begun(self, rows: Iterable[int]) -> bool:
        """Whether any of these, which were handed over, had been sent off to begin an episode."""
        begun = self._begun.intersection(rows)
        self._begun -= begun
        return bool(begun)

    def chosen(self, wanted: Wanted) -> dict[int, Outcome]:
        """Those that ``recv`` returns, in order."""
        rows = list(islice(self._arrived, wanted.max_envs)) if wanted.exactly is None else wanted.exactly
        return {row: self._each_arrived[row] for row in rows}

    def hand_over(self, rows: Iterable[int]) -> None:
        """These are returned to the caller."""
        self._replayed = self._to_replay.popleft() if self._to_replay else None
        if self._recording is not None:
            self._recording.append(list(rows))
        for row in rows:
            del self._each_arrived[row]

    def take_back(self, outcomes: dict[int, Outcome]) -> None:
        """These were not returned after all."""
        if self._replayed is not None:
            self._to_replay.appendleft(self._replayed)
        if self._recording is not None:
            self._recording.pop()
        self._each_arrived = outcomes | self._each_arrived

    def record(self) -> Recording:
        """Write down from now on what is handed over, into the list that is returned."""
        self._take_apart()  # what is under way will be handed over, too
        self._recording = []
        return self._recording

    def replay(self, recording: Sequence[Sequence[int]]) -> None:
        """Hand over, from now on, what was handed over when ``recording`` was made; afterwards as usual."""
        if self:
            raise AlreadyPending(
                "a recording can only be played back when nothing is under way. Call `recv` first.", "send"
            )
        for batch in recording:
            for row in batch:
                if not isinstance(row, int) or not 0 <= row < self._pool.num_envs:
                    raise ConfigurationError(
                        f"a recording is a list of lists of environments from 0 to {self._pool.num_envs - 1}, got {row!r}"
                    )
        self._to_replay = deque([list(batch) for batch in recording])


class Wanted:
    """What a ``recv`` waits for."""

    __slots__ = ("exactly", "is_chosen", "max_envs", "min_envs")

    def __init__(
        self, min_envs: int, max_envs: int | None, exactly: list[int] | None, *, is_chosen: bool = False
    ) -> None:
        self.min_envs = min_envs
        self.max_envs = max_envs
        self.exactly = exactly
        """These and no others."""
        self.is_chosen = is_chosen
        """Whether the caller has chosen them, and not a recording."""
