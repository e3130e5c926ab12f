"""The journal: everything the workers were asked to do, so that others can do it again.

It is kept by the caller, one *round* for each command, and written before anything is sent. What has been answered has the
results beside it, or their digests; what has not is *pending*, and is asked again after a replay::

    reset  step  step  step  step
      ✓     ✓     ✓     ✓    pending        ✓ replayed, and compared with its results; pending: asked again

A worker's environments are replayed together and in the order in which they were run, so that even those which share
something with their neighbours (global random numbers, class attributes) come out as they were.

It would grow for ever. So environments are given later *starts*, and what is before all of them is dropped. Attributes that
were set and methods that were called are kept: a reset does not undo them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any

from gymnasium.vector import AutoresetMode

from shoal.vector.backends.base import Addressed
from shoal.vector.digests import Digester
from shoal.vector.layout import Arena, Array, Rows, as_index
from shoal.vector.messages import EACH, Assignment, Attachment, Call, Command, Op, Redo, Replay, Steps, one_by_one
from shoal.vector.starts import Past, Start

JOURNALED = frozenset((Op.RESET, Op.STEP, Op.CALL, Op.SET_ATTR, *EACH))
TOUCHES = frozenset((Op.CALL, Op.SET_ATTR))
SMALL = 256
"""Results of at most so many bytes for each environment are kept as they are, which is quicker than to digest them."""


NOBODY: Mapping[int, Any] = MappingProxyType({})


@dataclass(slots=True)
class Evidence:
    """What some environments came to: their results, or the digests of these."""

    arrays: list[Array]
    is_digest: bool


@dataclass(slots=True)
class Round:
    """One command to some workers, and what came of it."""

    sequence: int
    op: Op
    commands: Sequence[Addressed]
    actions: list[Array]
    """Those of all environments, as the arena had them."""
    before: float
    """For how long workers had been at work until then."""
    answered: list[int]
    """Workers that have answered as a whole."""
    done: Mapping[int, tuple[Evidence, int]]
    """Environments that have answered for themselves, in that order, and where their evidence is."""
    num_alone: int = 0
    """How many environments were asked to answer for themselves."""
    evidence: Evidence | None = None
    """Of all environments, once all workers have answered."""
    failed: frozenset[int] = frozenset()
    """Environments that raised, which have no result to compare."""

    def command_to(self, worker: int) -> Command | None:
        """What this worker was asked."""
        for addressee, command in self.commands:
            if addressee == worker:
                return command
        return None


class Journal:
    """What all workers were asked, in order."""

    def __init__(self, rows: Sequence[range]) -> None:
        self.rows = list(rows)
        self.rounds: deque[Round] = deque()
        self.starts: dict[int, Start] = {}
        """Of environments whose history does not begin where they were made."""
        self.bases: dict[int, tuple[int, bytes]] = {}
        """Captured states of all of a worker's environments, and after which command."""
        self.nbytes = 0
        """About how much memory the results and actions take."""
        self.seconds = 0.0
        """For how long workers have been at work."""
        self.touched: dict[int, set[str]] = {}
        """What has been called and set, by worker."""
        self._open: dict[int, Round] = {}
        self._floors = [0] * len(self.rows)
        """The first command that matters to any environment of a worker."""
        self.last_sequence = 0
        self._arena: Arena

    @staticmethod
    def wants_digests(attachment: Attachment) -> bool:
        """Whether the results for these spaces are better digested by the runners than kept here."""
        layout = attachment.layout
        return layout.has_loose_observations or layout.result_nbytes > SMALL

    def attach(self, attachment: Attachment, arena: Arena) -> None:
        """Say where actions and results are."""
        self._arena = arena
        self._takes_digests = attachment.takes_digests
        self._digester = Digester(arena.results)
        self._mode = attachment.autoreset_mode
        self._round_nbytes = sum(array.nbytes for array in arena.actions) + (
            arena.digests.nbytes if self._takes_digests else sum(array.nbytes for array in arena.results)
        )

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(self, commands: Sequence[Addressed]) -> None:
        """Write down a command to some workers before it is sent."""
        _, (sequence, op, payload) = commands[0]
        if op not in JOURNALED:
            return
        actions: list[Array] = []
        if op is Op.STEP or op is Op.STEP_EACH:
            given = self._arena.actions if payload is None else self._arena.given_actions(payload.wide)
            actions = [array.copy() for array in given]
        one = Round(sequence, op, commands, actions, self.seconds, [], NOBODY)
        if op in EACH:
            one.num_alone = sum(len(_rows_of(command, range(0))) for _, command in commands)
        elif op in TOUCHES and not (op is Op.CALL and payload.is_read):
            self._note_touch(commands)
        self._open[sequence] = one
        self.last_sequence = sequence
        if op is not Op.CALL or not payload.is_read:
            self.rounds.append(one)
            self.nbytes += self._round_nbytes

    def forget(self, sequence: int) -> None:
        """A command was not sent after all."""
        if self._open.pop(sequence, None) is not None and self.rounds and self.rounds[-1].sequence == sequence:
            self.rounds.pop()
            self.nbytes -= self._round_nbytes

    def _note_touch(self, commands: Sequence[Addressed]) -> None:
        for worker, (_, op, payload) in commands:
            self.touched.setdefault(worker, set()).add(f"{op.label} {payload.name}")

    def answer(self, worker: int, sequence: int, failed: Collection[int]) -> bool:
        """A worker has answered as a whole; returns whether nobody has anything to answer any more."""
        one = self._open.get(sequence)
        if one is None:
            return not self._open
        one.answered.append(worker)
        if failed:
            one.failed |= frozenset(failed)
        if len(one.answered) == len(one.commands):
            if one.op is Op.STEP or one.op is Op.RESET:
                one.evidence = self._evidence()
            del self._open[sequence]
        return not self._open

    def arrive(self, rows: Sequence[tuple[int, int]], failed: Collection[int]) -> None:
        """Environments have answered for themselves: each with the sequence number of its command."""
        evidence = self._evidence([row for row, _ in rows])
        for place, (row, sequence) in enumerate(rows):
            one = self._open.get(sequence)
            if one is not None:
                if one.done is NOBODY:
                    one.done = {}
                one.done[row] = evidence, place  # type: ignore[index]
                if row in failed:
                    one.failed |= {row}
                if len(one.done) == one.num_alone:
                    del self._open[sequence]

    def _evidence(self, rows: list[int] | None = None) -> Evidence:
        """What is in the arena now, copied."""
        arrays = [self._arena.digests] if self._takes_digests else self._arena.results
        copies = [array.copy() for array in arrays] if rows is None else [array[rows] for array in arrays]
        return Evidence(copies, self._takes_digests)

    # -- reading -----------------------------------------------------------------------------------------------------

    def pending(self, worker: int) -> list[tuple[Command, Round]]:
        """What a worker has not answered yet, to be asked again, in order."""
        found = []
        for one in self._open.values():
            command = one.command_to(worker)
            if command is not None and worker not in one.answered:
                rest = _rest_of(command, one.done, self.rows[worker])
                if rest is not None:
                    found.append((rest, one))
        return found

    def is_pending(self, worker: int, sequence: int | None = None) -> bool:
        """Whether a worker has something to answer, or has yet to answer this."""
        return any(sequence is None or command.sequence == sequence for command, _ in self.pending(worker))

    @property
    def has_open(self) -> bool:
        """Whether anybody has something to answer."""
        return bool(self._open)

    def rows_of(self, command: Command, worker: int) -> Rows:
        """The environments that a command to this worker concerns."""
        return _rows_of(command, self.rows[worker])

    def last_observation(self, row: int) -> list[Any]:
        """What the leaves of an environment's observation were when the caller last saw it, as far as that is known."""
        observations = self._arena.observations
        if not self._takes_digests:
            for one in reversed(self.rounds):
                if one.evidence is not None:
                    return [array[row] for array in one.evidence.arrays[: len(observations)]]
                if row in one.done:
                    evidence, place = one.done[row]
                    return [array[place] for array in evidence.arrays[: len(observations)]]
        # A step that was not finished may have begun to write there.
        return [array[row].copy() for array in observations]

    def restore_actions(self, command: Command, one: Round, rows: Rows) -> None:
        """Put the actions of a command back where the runners find them."""
        if command.op not in (Op.STEP, Op.STEP_EACH):
            return
        wide: tuple[int, ...] = () if command.payload is None else command.payload.wide
        index = list(rows if command.payload is None else command.payload.rows)
        for target, source in zip(self._arena.given_actions(wide), one.actions, strict=True):
            target[index] = source[index]

    def replay(
        self,
        worker: int,
        starts: dict[int, Start] | None = None,
        base: tuple[int, bytes] | None = None,
        only: Rows | None = None,
        until: Mapping[int, int] = NOBODY,
    ) -> Replay:
        """Everything that brings a worker's environments, or only these, to where they are now, or were after a command.

        Other starts, and another base, than those in force may be given.
        """  # fmt: skip
        starts = self.starts if starts is None else starts
        base = self.bases.get(worker) if base is None else base
        rows = set(self.rows[worker] if only is None else only)
        after = -1 if base is None else base[0]
        redo = [
            each
            for one in self.rounds
            if one.sequence > after and (command := one.command_to(worker)) is not None
            for each in self._redo(one, command, worker, _Selection(rows, starts, until))
        ]
        chosen = {row: start for row, start in starts.items() if row in rows and start.sequence > after}
        return Replay(redo, chosen, None if base is None else base[1])

    def _redo(self, one: Round, command: Command, worker: int, selection: _Selection) -> Iterator[Redo]:
        """What has been answered of a command, to be done again."""
        starts = selection.starts
        if worker not in one.answered:
            parts = dict(one_by_one(_in_parts(command, self.rows[worker]))) if one.done else {}
            for row, (evidence, place) in one.done.items():
                if row in parts and selection.holds(row, one):
                    yield self._redo_of(one, parts[row], [row], self._digests(evidence, [place]), starts)
        else:
            its = _rows_of(command, self.rows[worker])
            chosen: Rows = [row for row in its if selection.holds(row, one)]
            if not chosen:
                return
            if len(chosen) < len(its):
                command = _part_of(command, chosen)
            else:
                chosen = its
            digests = []
            if one.op not in TOUCHES:
                # Until all have answered, the results are still where they were written.
                digests = self._digests(one.evidence or self._evidence(), chosen)
            yield self._redo_of(one, command, chosen, digests, starts)

    def _digests(self, evidence: Evidence, places: Rows) -> list[int]:
        if evidence.is_digest:
            known: list[int] = evidence.arrays[0][as_index(places)].tolist()
            return known
        return self._digester.digest(evidence.arrays, places).tolist()  # type: ignore[no-any-return]

    def _redo_of(
        self, one: Round, command: Command, rows: Rows, digests: list[int], starts: Mapping[int, Start]
    ) -> Redo:
        begins = tuple(row for row in rows if row in starts and starts[row].sequence == one.sequence)
        incomparable = set(one.failed)
        if self._mode is AutoresetMode.SAME_STEP and command.op is Op.STEP:
            # The reward and the flags of this step are of the episode before the one that begins.
            incomparable.update(row for row in begins if not starts[row].is_new)
        payload = command.payload
        if command.op is Op.STEP and payload is None:
            payload = Steps(rows, [], ())
        actions = [array[as_index(rows)] for array in one.actions]
        expected = [None if row in incomparable else digest for row, digest in zip(rows, digests, strict=False)]
        return Redo(command.op, rows, payload, actions, expected, begins)

    def past_of(self, row: int, worker: int, entropy: int | None) -> Past:
        """How an environment got to where it is now."""
        place = row - self.rows[worker].start
        return Past(self.replay(worker, only=[row]), entropy, row, place)

    def have_stepped(self, worker: int, before: Mapping[int, int], enough: int) -> set[int]:
        """Those of these environments of which so many steps are known from before that command."""
        counts, waiting = Counter[int](), dict(before)
        for one in self.rounds:
            waiting = {row: sequence for row, sequence in waiting.items() if sequence > one.sequence}
            if not waiting:
                break
            if one.op in (Op.STEP, Op.STEP_EACH) and (command := one.command_to(worker)) is not None:
                its = _rows_of(command, self.rows[worker])
                counts.update(row for row in waiting if row in its)
                waiting = {row: sequence for row, sequence in waiting.items() if counts[row] < enough}
        return {row for row in before if counts[row] >= enough}

    def telling_steps(self, worker: int, beginnings: Mapping[int, int]) -> dict[int, list[int]]:
        """The steps of these environments that tell something about how they began, with that command: none after a seed."""
        steps: dict[int, list[int]] = {row: [] for row in beginnings}
        telling = dict(beginnings)
        earliest = min(beginnings.values(), default=self.last_sequence)
        for one in self.rounds:
            if one.sequence <= earliest or (command := one.command_to(worker)) is None:
                continue
            if one.op in (Op.RESET, Op.RESET_EACH):
                for row, seed, _ in command.payload:
                    if seed is not None and one.sequence > telling.get(row, one.sequence):
                        del telling[row]
            elif one.op in (Op.STEP, Op.STEP_EACH):
                its = _rows_of(command, self.rows[worker])
                for row, began in telling.items():
                    if one.sequence > began and row in its:
                        steps[row].append(one.sequence)
        return steps

    def seconds_of_step(self, worker: int) -> float:
        """About how long a step of one of a worker's environments has taken lately."""
        steps = 0
        since = self.seconds
        for one in islice(reversed(self.rounds), 256):
            if one.op in (Op.STEP, Op.STEP_EACH) and (command := one.command_to(worker)) is not None:
                steps += len(_rows_of(command, self.rows[worker]))
                since = one.before
        return (self.seconds - since) / steps if steps else 0.0

    def replay_seconds(self, worker: int) -> float:
        """About how long a replay of this worker would take."""
        floor = self._floors[worker]
        for one in self.rounds:
            if one.sequence >= floor and one.op not in TOUCHES:
                return self.seconds - one.before
        return 0.0

    # -- becoming shorter --------------------------------------------------------------------------------------------

    def begin_from(self, starts: dict[int, Start]) -> None:
        """Let these environments' history begin later, and drop what nobody needs any more."""
        self.starts.update(starts)
        self._drop()

    def rest_on(self, worker: int, sequence: int, base: bytes) -> None:
        """Let the history of a worker's environments begin with their captured state after that command."""
        self.bases[worker] = sequence, base
        for row in self.rows[worker]:
            if row in self.starts and self.starts[row].sequence <= sequence:
                del self.starts[row]
        self._drop()

    def keep_last(self) -> None:
        """Forget all that has been answered but the last, for environments that will not be replayed."""
        while len(self.rounds) > 2 and self.rounds[0].sequence not in self._open:
            self.rounds.popleft()
            self.nbytes -= self._round_nbytes

    def floor(self, row: int) -> int:
        """The first command that matters to this environment."""
        return self._floor(next(worker for worker, its in enumerate(self.rows) if row in its), row)

    def _floor(self, worker: int, row: int) -> int:
        start, base = self.starts.get(row), self.bases.get(worker)
        return max(start.sequence if start is not None else 0, base[0] + 1 if base is not None else 0)

    def _drop(self) -> None:
        self._floors = [min(self._floor(worker, row) for row in its) for worker, its in enumerate(self.rows)]
        floor = min(self._floors)
        touched = (
            min((base[0] for base in self.bases.values()), default=-1) if len(self.bases) == len(self.rows) else -1
        )
        kept: list[Round] = []
        while self.rounds and self.rounds[0].sequence < floor and self.rounds[0].sequence not in self._open:
            one = self.rounds.popleft()
            if one.op in TOUCHES and one.sequence > touched:
                kept.append(one)
            else:
                self.nbytes -= self._round_nbytes
        self.rounds.extendleft(reversed(kept))


@dataclass(frozen=True, slots=True)
class _Selection:
    """What of the journal is to be done again."""

    rows: Collection[int]
    starts: Mapping[int, Start]
    until: Mapping[int, int]
    """The last command for an environment, where that is not simply the last."""

    def holds(self, row: int, one: Round) -> bool:
        """Whether a command has to be done again for an environment: a reset does not undo what was set or called."""
        if row not in self.rows or one.sequence > self.until.get(row, one.sequence):
            return False
        start = self.starts.get(row)
        if start is None or one.sequence >= start.sequence:
            return True
        return one.op in TOUCHES and not start.is_new


def _rows_of(command: Command, rows: range) -> Rows:
    payload: Any = command.payload
    if payload is None:
        return rows
    if command.op in (Op.RESET, Op.RESET_EACH):
        return [reset.env_index for reset in payload]
    its: Rows = payload.rows
    return its


def _rest_of(command: Command, done: Collection[int], its: range) -> Command | None:
    """What of a command has not been done."""
    if not done:
        return command
    rows = [row for row in _rows_of(command, its) if row not in done]
    return _part_of(command, rows) if rows else None


def _in_parts(command: Command, its: range) -> Command:
    """The same command, as one that every environment answers for itself."""
    if command.op is Op.STEP:
        return Command(command.sequence, Op.STEP_EACH, command.payload or Steps(its, [], ()))
    return command


def _part_of(command: Command, rows: Rows) -> Command:
    """The same command for fewer environments."""
    sequence, op, payload = command
    if op in (Op.RESET, Op.RESET_EACH):
        payload = [reset for reset in payload if reset.env_index in rows]
    elif isinstance(payload, Assignment):
        values = [value for row, value in zip(payload.rows, payload.values, strict=True) if row in rows]
        payload = Assignment(rows, payload.name, values)
    elif isinstance(payload, Call):
        payload = payload._replace(rows=rows)
    elif payload is None:
        payload = Steps(rows, [], ())
    else:
        payload = Steps(rows, [entry for entry in payload.loose if entry[0] in rows], payload.wide)
    return Command(sequence, op, payload)
