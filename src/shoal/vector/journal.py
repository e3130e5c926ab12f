"""The journal: everything the workers were asked to do, so that others can do it again.

It is kept by the caller, one *round* for each command, written before anything is taken in. What has been answered has the
results beside it, or their digests; what has not is *pending*, and is asked again after a replay::

    reset  step  step  step  step
      ✓     ✓     ✓     ✓    pending        ✓ replayed, and compared with its results; pending: asked again

A worker's environments are replayed together and in the order in which they were run, so that even those which share
something with their neighbours (global random numbers, class attributes) come out as they were.

It would grow for ever. So environments are given later *starts*, and what is before all of them is dropped. Attributes that
were set and methods that were called are kept: a reset does not undo them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from shoal.vector.backends.base import Addressed
from shoal.vector.digests import Digester
from shoal.vector.failures import Failure
from shoal.vector.footprint import footprint
from shoal.vector.halves import Half, halves_of
from shoal.vector.history import History, joined
from shoal.vector.layout import Arena, Array, Rows, as_index, private_arena
from shoal.vector.loose import LooseColumn
from shoal.vector.messages import EACH, STEP, STEP_EACH, Attachment, Command, Op, Redo, Replay, Reply, Steps, one_by_one
from shoal.vector.rounds import (
    NOBODY,
    NONE_FAILED,
    RESETS,
    STEPS,
    TOUCHES,
    Round,
    in_parts,
    num_rows,
    part_of,
    readdressed,
    rest_of,
)
from shoal.vector.starts import Past, Start

JOURNALED = frozenset((Op.RESET, Op.STEP, Op.CALL, Op.SET_ATTR, *EACH))
ROUND_NBYTES, COMMAND_NBYTES, ALONE_NBYTES = 700, 500, 100
"""What a round takes beside what it holds, what each command adds, and each environment that answers for itself."""
POINTER_NBYTES = 8
SMALL = 256
"""Results of at most so many bytes for each environment are kept as they are, which is quicker than to digest them ..."""
MUCH = 2**16
"""... unless they are more than so many bytes for all environments: filling ever more memory is slow, too."""


class Journal:
    """What all workers were asked, in order."""

    def __init__(self, rows: Sequence[range]) -> None:
        self.rows = list(rows)
        self._everybody = range(rows[-1].stop)
        self.rounds = History()
        self.starts: dict[int, Start] = {}
        """Of environments whose history does not begin where they were made."""
        self.bases: dict[int, tuple[int, bytes]] = {}
        """Captured states of all of a worker's environments, and after which command."""
        self.seconds = 0.0
        """For how long workers have been at work."""
        self.touched: dict[int, set[str]] = {}
        """What has been called and set, by worker."""
        self._open: dict[int, Round] = {}
        self.floors = [0] * len(self.rows)
        """The first command that matters to any environment of a worker."""
        self.last_sequence = 0
        self._arena: Arena

    @staticmethod
    def wants_digests(attachment: Attachment) -> bool:
        """Whether the results for these spaces are better digested by the runners than kept here."""
        layout = attachment.layout
        nbytes = layout.result_nbytes
        return layout.has_loose_observations or nbytes > SMALL or nbytes * layout.num_envs > MUCH

    def attach(self, attachment: Attachment, arena: Arena) -> None:
        """Say where actions and results are."""
        self._arena = arena
        self._takes_digests, self._digest_blocks = attachment.takes_digests, [arena.digests.view(np.uint8)]
        self._digester = Digester(arena.results)
        self._mode = attachment.autoreset_mode
        self.rounds.attach(arena.action_block, [arena.digests] if self._takes_digests else arena.result_blocks)
        kept = [arena.digests] if self._takes_digests else arena.results
        self._row_nbytes = sum(array[:1].nbytes for array in (*arena.actions, *kept))
        self._scratch = private_arena(attachment.layout)

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(self, commands: Sequence[Addressed]) -> int:
        """Write down a command to some workers that has just been sent; returns about how many bytes that takes."""
        _, (sequence, op, payload) = commands[0]
        if op not in JOURNALED:
            return 0
        self.last_sequence = sequence
        if payload is None:
            self.write_step(sequence, len(commands))
            return self.rounds.step_nbytes
        one = self._open[sequence] = Round(sequence, op, commands, self.seconds, len(commands))
        count = num_rows(commands)
        # Texts and whatever else has no fixed size are in the commands themselves.
        one.nbytes = ROUND_NBYTES + COMMAND_NBYTES * len(commands) + self._row_nbytes * count
        one.nbytes += sum([_nbytes_of(command.payload) for _, command in commands])
        if op in STEPS:
            one.own_actions = {worker: self._given(command) for worker, command in commands}
        if op in EACH:
            one.num_alone = count
            one.nbytes += ALONE_NBYTES * count
        if op is not Op.CALL or not payload.is_read:
            self.rounds.append(one)
            if op in TOUCHES:
                self._note_touch(commands)
        return one.nbytes

    def write_step(self, sequence: int, num_workers: int) -> None:
        """Write down the ordinary step of all environments, which has just been ordered."""
        self.last_sequence = sequence
        self._open[sequence] = self.rounds.under_way = Round(
            sequence, STEP, None, self.seconds, num_workers, self._arena.action_block.tobytes(), NOBODY, 0, NOBODY
        )

    def write_half(self, half: Half) -> None:
        """Write down the step of a half that has just been ordered."""
        self.last_sequence = sequence = half.sequence
        self._open[sequence] = one = Round(
            sequence, STEP_EACH, None, self.seconds, len(half.workers), self._arena.action_block.tobytes(),
            NOBODY, 0, NOBODY, len(half.rows), None, NONE_FAILED, self.rounds.step_nbytes, half,
        )  # fmt: skip
        self.rounds.begin_half(one)

    def finish_half(self, half: Half, failures: Sequence[Failure] = ()) -> bool:
        """All of a half are back; returns whether nobody has anything to answer any more."""
        one = self._open.pop(half.sequence)
        if failures:
            one.failed |= {failure.env_index for failure in failures}
        self.rounds.finish_half(one, self._result_blocks())
        return not self._open

    def _given(self, command: Command) -> list[Array]:
        """The actions of a command to some environments, copied."""
        rows = list(command.payload.rows)
        return [array[rows] for array in self._arena.given_actions(command.payload.wide)]

    def _note_touch(self, commands: Sequence[Addressed]) -> None:
        for worker, (_, op, payload) in commands:
            self.touched.setdefault(worker, set()).add(f"{op.label} {payload.name}")

    def answer_step(self, came: Sequence[Any]) -> bool:
        """The ordinary case, quickly: answers to the ordinary step, and no failure. Otherwise nothing is done, and said so."""
        one = self.rounds.under_way
        if one is None or not came:
            return False
        for event in came:
            if (
                type(event) is not Reply
                or event.sequence != one.sequence
                or event.outcome.failures
                or event.outcome.loose
            ):
                return False
        for event in came:
            one.note_answer(event.worker)
        if not one.num_waiting:
            self.finish_step()
        return True

    def finish_step(self, failures: Sequence[Failure] = ()) -> None:
        """Everybody has answered the ordinary step."""
        one = self.rounds.under_way
        assert one is not None
        if failures:
            one.failed |= {failure.env_index for failure in failures}
        del self._open[one.sequence]
        self.rounds.finish_step(self._result_blocks())

    def answer(self, worker: int, sequence: int, failures: Sequence[Failure]) -> bool:
        """A worker has answered as a whole; returns whether nobody has anything to answer any more."""
        one = self._open.get(sequence)
        if one is None:
            return not self._open
        one.note_answer(worker)
        if failures:
            one.failed |= {failure.env_index for failure in failures}
        if not one.num_waiting:
            if one is self.rounds.under_way:
                self.rounds.finish_step(self._result_blocks())
            elif one.op is Op.STEP or one.op is Op.RESET:
                one.results = self._results_now()
            del self._open[sequence]
        return not self._open

    def arrive(self, rows: Sequence[tuple[int, int]], failed: Collection[int]) -> None:
        """Environments have answered for themselves: each with the sequence number of its command."""
        chosen = [row for row, _ in rows]
        results = (
            [array[chosen] for array in self._arena.results]
            if not self._takes_digests
            else [self._arena.digests[chosen]]
        )
        for place, (row, sequence) in enumerate(rows):
            one = self._open.get(sequence)
            if one is not None:
                if one.done is NOBODY:
                    one.done = {}
                one.done[row] = results, place  # type: ignore[index]
                if row in failed:
                    one.failed |= {row}
                if len(one.done) == one.num_alone:
                    del self._open[sequence]

    def arrive_together(self, rows: list[int], sequence: int) -> None:
        """As :meth:`arrive`, for environments that were asked by the same command and did not raise."""
        one = self._open.get(sequence)
        if one is None:
            return
        kept = [self._arena.digests] if self._takes_digests else self._arena.results
        results = [array[rows] for array in kept]
        if one.done is NOBODY:
            one.done = {}
        for place, row in enumerate(rows):
            one.done[row] = results, place  # type: ignore[index]
        if len(one.done) == one.num_alone:
            del self._open[sequence]

    def _result_blocks(self) -> Sequence[Array]:
        """The memory with the results of all environments, or their digests."""
        return self._digest_blocks if self._takes_digests else self._arena.result_blocks

    def _results_now(self) -> bytes:
        """What is there now."""
        return joined(self._result_blocks())

    # -- reading -----------------------------------------------------------------------------------------------------

    def pending(self, worker: int) -> list[tuple[Command, Round]]:
        """What a worker has not answered yet, to be asked again, in order."""
        found = []
        for one in self._open.values():
            command = one.command_to(worker)
            if command is not None and not one.has_answered(worker):
                rest = rest_of(command, one.done, self.rows[worker])
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

    def last_observation(self, row: int) -> list[Any]:
        """What the leaves of an environment's observation were when the caller last saw it, as far as that is known."""
        observations = self._arena.observations
        if not self._takes_digests:
            for one in reversed(self.rounds):
                if row in one.rows_with_results(self._everybody):
                    if one.results is not None:
                        return [array[row].copy() for array in self._laid_out(one.results)[: len(observations)]]
                    results, place = one.done[row]
                    return [array[place] for array in results[: len(observations)]]
        # A step that was not finished may have begun to write there.
        return [array[row].copy() for array in observations]

    def restore_actions(self, command: Command, one: Round, worker: int) -> None:
        """Put the actions of a command back where the runners find them."""
        if command.op in STEPS:
            its = list(command.rows(self.rows[worker]))
            wide: tuple[int, ...] = () if command.payload is None else command.payload.wide
            for target, values in zip(self._arena.given_actions(wide), self.actions_of(one, worker, its), strict=True):
                target[its] = values

    def actions_of(self, one: Round, worker: int, rows: Rows) -> list[Array]:
        """The actions that these environments were given, leaf by leaf."""
        if one.actions is not None:
            self._scratch.action_block[:] = np.frombuffer(one.actions, np.uint8)
            return [array[list(rows)] for array in self._scratch.actions]
        command = one.command_to(worker)
        if command is None or worker not in one.own_actions:
            return []
        places = {row: place for place, row in enumerate(command.rows(self.rows[worker]))}
        return [array[[places[row] for row in rows]] for array in one.own_actions[worker]]

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
        last = max(until.values()) if until and rows <= until.keys() else self.last_sequence
        redo = [
            each
            for one in takewhile(lambda one: one.sequence <= last, self.rounds.after(after))
            if (command := one.command_to(worker)) is not None
            for each in self._redo(one, command, worker, _Selection(rows, starts, until))
        ]
        chosen = {row: start for row, start in starts.items() if row in rows and start.sequence > after}
        return Replay(redo, chosen, None if base is None else base[1])

    def continuation(
        self, worker: int, only: Rows, starts: Mapping[int, Start], after: int, most: int
    ) -> tuple[list[Redo], int]:
        """What these environments of a worker have done after that command, of so many commands at most; and the last.

        ``starts``: where their histories begin, as :meth:`replay` gives it.
        """
        selection, last, redo = _Selection(only, starts, NOBODY), after, list[Redo]()
        for one in islice(self.rounds.after(after), most):
            if one.sequence in self._open:
                break  # some have yet to answer
            last = one.sequence
            if (command := one.command_to(worker)) is not None:
                redo.extend(self._redo(one, command, worker, selection))
        return redo, last

    def _redo(self, one: Round, command: Command, worker: int, selection: _Selection) -> Iterator[Redo]:
        """What has been answered of a command, to be done again."""
        starts = selection.starts
        if not one.has_answered(worker):
            parts = dict(one_by_one(in_parts(command, self.rows[worker]))) if one.done else {}
            for row, (arrays, place) in one.done.items():
                if row in parts and selection.holds(row, one):
                    yield self._redo_of(one, parts[row], worker, [row], self._digests(arrays, [place]), starts)
        else:
            its = command.rows(self.rows[worker])
            is_one_of_many = isinstance(its, range) and len(selection.rows) < len(its)
            chosen: Rows
            if is_one_of_many and isinstance(selection.rows, range) and not selection.starts and not selection.until:
                chosen = selection.rows  # neighbours, with all that they have done
            else:
                among = [row for row in sorted(selection.rows) if row in its] if is_one_of_many else its
                chosen = [row for row in among if selection.holds(row, one)]
            if not chosen:
                return
            if len(chosen) < len(its):
                command = part_of(command, chosen)
            else:
                chosen = its
            digests = []
            if one.op not in TOUCHES:
                # Until all have answered, the results are still where they were written.
                results = self._results_now() if one.results is None else one.results
                digests = self._digests(self._laid_out(results), chosen)
            yield self._redo_of(one, command, worker, chosen, digests, starts)

    def _digests(self, results: list[Array], places: Rows) -> list[int]:
        if self._takes_digests:
            return results[0][as_index(places)].tolist()  # type: ignore[no-any-return]
        return self._digester.digest_copies(results, places).tolist()  # type: ignore[no-any-return]

    def _laid_out(self, results: bytes | memoryview) -> list[Array]:
        """The arrays in this memory, as long as nothing else is laid out; or the digests."""
        if self._takes_digests:
            return [np.frombuffer(results, np.uint64)]
        first = 0
        for block in self._scratch.result_blocks:
            block[:] = np.frombuffer(results, np.uint8, len(block), first)
            first += len(block)
        return self._scratch.results

    def _redo_of(
        self, one: Round, command: Command, worker: int, rows: Rows, digests: list[int], starts: Mapping[int, Start]
    ) -> Redo:
        begins = tuple(row for row in rows if row in starts and starts[row].sequence == one.sequence)
        incomparable = set(one.failed)
        if self._mode is AutoresetMode.SAME_STEP and command.op in STEPS:
            # The reward and the flags of this step are of the episode before the one that begins.
            incomparable.update(row for row in begins if not starts[row].is_new)
        payload = command.payload
        if command.op is Op.STEP and payload is None:
            payload = Steps(rows, [], ())
        actions = self.actions_of(one, worker, rows) if one.op in STEPS else []
        expected = [None if row in incomparable else digest for row, digest in zip(rows, digests, strict=False)]
        op = Op.STEP if command.op is Op.STEP_EACH else command.op  # who answers for itself is the same then
        return Redo(op, rows, payload, actions, expected, begins)

    def past_of(self, row: int, worker: int, entropy: int | None) -> Past:
        """How an environment got to where it is now."""
        place = row - self.rows[worker].start
        return Past(self.replay(worker, only=[row]), entropy, row, place)

    def pasts_of(self, worker: int, entropy: int | None) -> dict[int, Past]:
        """The same for each environment of a worker, told together."""
        whole, rows = self.replay(worker), self.rows[worker]
        return {row: Past(whole, entropy, row, row - rows.start) for row in rows}

    def have_stepped(self, worker: int, before: Mapping[int, int], enough: int) -> set[int]:
        """Those of these environments of which so many steps are known from before that command."""
        counts, waiting = Counter[int](), dict(before)
        for one in self.rounds:
            waiting = {row: sequence for row, sequence in waiting.items() if sequence > one.sequence}
            if not waiting:
                break
            if one.op in STEPS and (command := one.command_to(worker)) is not None:
                its = command.rows(self.rows[worker])
                counts.update(row for row in waiting if row in its)
                waiting = {row: sequence for row, sequence in waiting.items() if counts[row] < enough}
        return {row for row in before if counts[row] >= enough}

    def telling_steps(
        self, worker: int, beginnings: Mapping[int, int], enough: int | None = None
    ) -> dict[int, list[int]]:
        """The steps of these environments that tell something about how they began, with that command: none after a seed.

        There may be many. The first few of each may be ``enough``.
        """
        steps: dict[int, list[int]] = {row: [] for row in beginnings}
        telling = dict(beginnings)
        earliest = min(beginnings.values(), default=self.last_sequence)
        for one in self.rounds.after(earliest):
            if (command := one.command_to(worker)) is None:
                continue
            if one.op in RESETS:
                for row, seed, _ in command.payload:
                    if seed is not None and one.sequence > telling.get(row, one.sequence):
                        del telling[row]
            elif one.op in STEPS:
                its = command.rows(self.rows[worker])
                for row, began in telling.items():
                    if one.sequence > began and row in its:
                        steps[row].append(one.sequence)
                if enough is not None:
                    telling = {row: began for row, began in telling.items() if len(steps[row]) < enough}
            if not telling:
                break
        return steps

    def seconds_of_step(self, worker: int) -> float:
        """About how long a step of one of a worker's environments has taken lately."""
        steps = 0
        since = self.seconds
        for one in islice(reversed(self.rounds), 256):
            if one.op in STEPS and (command := one.command_to(worker)) is not None:
                steps += len(command.rows(self.rows[worker]))
                since = one.before
        return (self.seconds - since) / steps if steps else 0.0

    def bytes_per_second(self) -> float:
        """How fast it has grown lately, in seconds of work."""
        nbytes, since = 0, self.seconds
        for one in islice(reversed(self.rounds), 256):
            nbytes += one.nbytes or self.rounds.step_nbytes  # which is not said of those that are packed
            since = one.before
        return nbytes / max(self.seconds - since, 1e-9)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes: what was asked and answered, and captured states."""
        return self.rounds.nbytes + sum(len(base) for _, base in self.bases.values())

    def replay_seconds(self, worker: int) -> float:
        """About how long a replay of this worker would take."""
        for one in self.rounds.after(self.floors[worker] - 1):
            if one.op not in TOUCHES:
                return self.seconds - one.before
        return 0.0

    def count_done_after(self, sequence: int) -> int:
        """How many commands after that one have been answered, up to the first that has not."""
        first_open = min(self._open, default=self.last_sequence + 1)
        return self.rounds.count_after(sequence) - self.rounds.count_after(max(first_open - 1, sequence))

    # -- with other workers ----------------------------------------------------------------------------------------------

    def adopt(self, other: Journal, group_size: int) -> None:
        """Go on where another journal was: of the same environments, which have nothing to do, with other workers."""
        assert not other._open
        assert not other.bases, "a captured state is of the environments of one worker"
        worker_of = [worker for worker, its in enumerate(self.rows) for _ in its]
        self.rounds.adopt(
            other.rounds, lambda one: readdressed(one, other.rows, worker_of), halves_of(self.rows, group_size)
        )
        self.starts, self.seconds, self.last_sequence = other.starts, other.seconds, other.last_sequence
        touched = set[str]().union(*other.touched.values())
        self.touched = {worker: set(touched) for worker in range(len(self.rows))} if touched else {}
        self._drop()

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
        """Forget all that has been answered but the last of each environment, for those that will not be replayed."""
        unseen = set(self._everybody)
        for one in reversed(self.rounds):
            unseen.difference_update(one.rows_with_results(self._everybody))
            if not unseen:
                self.rounds.drop_before(one.sequence, self._open, lambda one: False)
                return

    def floor(self, row: int) -> int:
        """The first command that matters to this environment."""
        return self._floor(next(worker for worker, its in enumerate(self.rows) if row in its), row)

    def _floor(self, worker: int, row: int) -> int:
        start, base = self.starts.get(row), self.bases.get(worker)
        return max(start.sequence if start is not None else 0, base[0] + 1 if base is not None else 0)

    def _drop(self) -> None:
        self.floors = [min(self._floor(worker, row) for row in its) for worker, its in enumerate(self.rows)]
        floor = min(self.floors)
        touched = (
            min((base[0] for base in self.bases.values()), default=-1) if len(self.bases) == len(self.rows) else -1
        )
        self.rounds.drop_before(floor, self._open, lambda one: one.op in TOUCHES and one.sequence > touched)


def _nbytes_of(payload: Any) -> int:
    """About how much memory what a worker was asked takes."""
    if not isinstance(payload, Steps):
        return footprint([payload])
    values = [entry.values if isinstance(entry, LooseColumn) else [entry] for entry in payload.loose]
    return sum([POINTER_NBYTES * len(own) + footprint(own) for own in values])


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
