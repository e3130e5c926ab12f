"""``pipes`` and ``shm``: the environments in worker processes.

The two differ in one thing, where the arena lies. ``shm`` shares it, so that a step's message is only a header in each
direction. ``pipes`` gives each side an arena of its own, and the rows travel behind the header.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import ClassVar

import numpy as np

from shoal.vector.backends.base import Addressed, RealTime, StartMethod
from shoal.vector.backends.board import FIRST_SLEEP_SECONDS, NAP_SECONDS, Board, writes_keep_their_order
from shoal.vector.backends.channel import ARRIVAL, FORM, LOG, RING, Frame
from shoal.vector.backends.crew import Crew, Member, brief
from shoal.vector.backends.inherited import Inheritance
from shoal.vector.backends.launch import ANSWER_SECONDS, START_SECONDS
from shoal.vector.backends.limits import make_room_for, occupy_standard_descriptors
from shoal.vector.backends.remote_log import handle_record
from shoal.vector.backends.shared_buffer import SharedBuffer
from shoal.vector.backends.tickets import Tickets
from shoal.vector.backends.told_reader import ToldReader, unreadable
from shoal.vector.backends.wait_mode import WaitMode
from shoal.vector.backends.worker import HUNG_UP
from shoal.vector.cpus import usable_cpus
from shoal.vector.errors import ConfigurationError, ProtocolError
from shoal.vector.halves import ALL, Half
from shoal.vector.info_forms import room_of
from shoal.vector.interrupts import postponed
from shoal.vector.layout import Arena, pack, packed_nbytes, private_arena, unpack
from shoal.vector.messages import (
    EACH,
    NOTHING,
    Arrival,
    Arrivals,
    Attachment,
    Command,
    Death,
    Event,
    Op,
    Outcome,
    Recipe,
    Reply,
    Steps,
)
from shoal.vector.patience import SPIN_SECONDS, look
from shoal.vector.pickling import dump_by_value, dump_known, dump_spaces_by_value

NOT_UNDER_WAY = -1


class ProcessBackend(RealTime):
    """What ``pipes`` and ``shm`` have in common."""

    name: ClassVar[str] = "processes"
    in_process: ClassVar[bool] = False
    shares_arena: ClassVar[bool]

    def __init__(
        self,
        recipes: list[Recipe],
        start_method: StartMethod,
        *,
        pin_workers: bool,
        construct_seconds: float | None = None,
    ) -> None:
        self._inheritance = (
            Inheritance(env_fn for recipe in recipes for env_fn in recipe.env_fns) if start_method == "fork" else None
        )
        # These two fail before there is anything to give back.
        members = [Member(recipe, brief(recipe, self._inheritance)) for recipe in recipes]
        make_room_for(len(recipes))
        occupy_standard_descriptors()
        self.num_workers = len(recipes)
        self.num_envs = recipes[-1].rows.stop
        self._workers = range(self.num_workers)
        self.start_method = start_method
        self._uses_board = self.has_sheet = self.shares_arena and writes_keep_their_order()
        self._board = Board(self.num_workers + 1, has_mailboxes=self._uses_board)  # one more for the spare
        # With more workers than processors, a worker that looks takes time from those that work.
        self._may_look = self.num_workers <= usable_cpus()
        self._mode = WaitMode(self.num_envs)
        self._patience = 0.0
        self._shared = SharedBuffer("shoal-arena") if self.shares_arena else None
        self.crew = Crew(
            members, start_method, self._board, self._shared,
            uses_board=self._uses_board, is_pinned=pin_workers,
            start_seconds=min(START_SECONDS, max(ANSWER_SECONDS, construct_seconds or START_SECONDS)),
        )  # fmt: skip
        self._awaited: dict[int, Command] = {}
        """The commands that have no reply yet, by worker."""
        self._last_wait = 0.0
        self._lines = {ALL: self._board.line(self._workers)}
        """How steps of all environments, and of halves, are ordered on the board."""
        self._tickets = Tickets(self.num_envs)
        self._stepping = NOT_UNDER_WAY
        """The number of the ordinary step that is under way, unless somebody has asked for workers one by one ..."""
        self._whole: dict[int, Half] = {}
        """... and halves that are, of which nobody has asked for the environments one by one."""
        self._told = ToldReader(self._board, [recipe.rows for recipe in recipes])
        """What environments tell, where that is in shared memory."""
        self._is_listening = False
        """Whether somebody waits at the doorbell, so that workers have to ring it."""
        self._arena: Arena | None = None
        self._lends = False
        """Whether the caller has arrays that are views of the arena."""
        self.dropped_replies = 0

    def start(self) -> None:
        """Start all workers. They construct in parallel once they are told to."""
        self.crew.start()

    def do_without(self, workers: Collection[int]) -> None:
        """Leave the places of these workers empty, before any is started: their work is done in the caller's process."""
        self.crew.absent.update(workers)

    def attach(self, attachment: Attachment, sequence: int) -> Arena:
        """Allocate the arena and tell every worker."""
        self._lends = attachment.lends_observations
        if self._shared is not None:
            layout = attachment.layout
            self._arena = Arena(layout, self._shared.allocate(layout.nbytes))
        else:
            self._arena = private_arena(attachment.layout)
            for member in self.crew:
                if member.is_started:
                    member.channel.max_raw = packed_nbytes(self._arena.shipped, member.recipe.rows)
        command = Command(sequence, Op.ATTACH, attachment)
        self.post([(worker, command) for worker in range(self.num_workers) if worker not in self.crew.absent])
        return self._arena

    @property
    def arena(self) -> Arena:
        """The caller's view of it."""
        assert self._arena is not None
        return self._arena

    def post(self, commands: Sequence[Addressed]) -> None:
        """Send commands. What a socket does not take at once is sent while polling."""
        # Everything is pickled before anything is sent: what cannot be sent to one worker reaches none.
        pickled = [self._pickled(worker, command) for worker, command in commands]
        for (worker, command), data in zip(commands, pickled, strict=True):
            if worker == self.crew.spare and command.op is Op.CONSTRUCT:
                self.crew.use_spare(command.payload)
            rows = self.crew[worker].recipe.rows
            if command.op in EACH:
                self._tickets.give(command.rows(rows), command.sequence)
            else:
                self._awaited[worker] = command
            is_step = self._uses_board and command.op is Op.STEP
            if is_step and (not data or self._board.write_order(worker, command.sequence, data)):
                self._ring(self._board.line([worker]).order(command.sequence), command.sequence)
                continue
            raw = None
            if self._shared is None and command.op in (Op.STEP, Op.STEP_EACH):
                assert self._arena is not None
                steps = command.payload or Steps(rows, [], ())
                raw = pack(self._arena.given_actions(steps.wide), steps.rows)
            self.crew.send(worker, command.sequence, command.op, data, raw)

    def _pickled(self, worker: int, command: Command) -> bytes:
        if command.op is Op.CONSTRUCT:
            is_spare = worker == self.crew.spare
            return brief(command.payload, self._inheritance) if is_spare else self.crew[worker].briefing
        if command.payload is None:
            return b""
        try:
            if isinstance(command.payload, Attachment):
                return dump_spaces_by_value(command.payload)
            if isinstance(command.payload, Steps):
                return dump_known(command.payload)
            return dump_by_value(command.payload)
        except Exception as error:
            raise ConfigurationError(
                f"what was given to {command.op.label}() cannot be sent to a worker process: "
                f"{type(error).__name__}: {error}. No environment was touched."
            ) from error

    def poll(self, timeout: float | None, arrivals: int = 1) -> list[Event]:
        """Wait for workers, and return what they replied and who died; perhaps nothing, even before the timeout."""
        events = self._poll_board(timeout, arrivals) if self._uses_board else self._gather(timeout)
        if events and self._may_look:
            self._note_answers(sum(map(self._num_answered, events)), perf_counter())
        return events

    def _num_answered(self, event: Event) -> int:
        if type(event) is Reply:
            return len(self.crew[event.worker].recipe.rows)
        return len(event.rows) if type(event) is Arrivals else 1

    def _note_answers(self, num_envs: int, now: float) -> None:
        """Environments have answered: perhaps it is time to wait in another way."""
        if self._may_look and self._mode.note(num_envs, now):
            self._patience = SPIN_SECONDS if self._mode.looks else 0.0
            self._board.let_look(self._mode.looks)
            if not self._uses_board:
                self.crew.waiter.patience = self._patience

    def _poll_board(self, timeout: float | None, arrivals: int) -> list[Event]:
        begin = time.perf_counter()
        patience = self._patience if timeout is None else min(self._patience, timeout)
        events, _ = look(self._glance, patience if self._last_wait < SPIN_SECONDS else 0.0)
        if not events:
            self._board.fall_asleep(arrivals)
            try:
                first = FIRST_SLEEP_SECONDS if timeout is None else min(FIRST_SLEEP_SECONDS, timeout)
                events = self._glance() or self._gather(first) or self._glance()
                if not events and timeout != first:
                    rest = None if timeout is None else timeout - first
                    if arrivals > 1:
                        rest = NAP_SECONDS if rest is None else min(rest, NAP_SECONDS)
                    events = self._gather(rest) or self._glance()
            finally:
                if not self._is_listening:
                    self._board.wake_up()
        self._last_wait = time.perf_counter() - begin
        return events

    @property
    def steps_at_once(self) -> bool:  # type: ignore[override]
        """Whether steps are ordered on the board, are short enough to look for their end, and no worker has to answer."""
        return (
            self._uses_board
            and self._may_look
            and self._last_wait < SPIN_SECONDS
            and (not self._awaited or [*self._awaited] == [self.crew.spare])
        )

    def order_step(self, sequence: int) -> None:
        """As :meth:`post`, for the ordinary step, which is the same for all, where that is ordered on the board."""
        self._stepping = sequence
        asleep = self._lines[ALL].order(sequence)
        if asleep:
            self._ring(asleep, sequence)

    def _ring(self, workers: Sequence[int], sequence: int) -> None:
        """Wake those that sleep: something is ordered on the board."""
        for worker in workers:
            member = self.crew[worker]
            member.channel.send(member.generation, sequence, RING)

    def finish_step(self, sequence: int) -> Outcome | None:
        """Look whether all have finished the ordinary step, and sent no message. Otherwise :meth:`poll` goes on."""
        if self._stepping != sequence:
            return None
        begin = perf_counter()
        if not self._lines[ALL].wait(sequence, self._patience):
            return None
        now = perf_counter()
        self._last_wait = now - begin
        self._note_answers(self.num_envs, now)
        self._stepping = NOT_UNDER_WAY
        return self._told.read_together(self._workers, sequence)

    def order_half(self, half: Half) -> None:
        """Order a step of one of two halves on the board."""
        number, sequence = half.number, half.sequence
        self._whole[number] = half
        if number not in self._lines:
            self._lines[number] = self._board.line(half.workers, number)
        asleep = self._lines[number].order(sequence)
        if asleep:
            self._ring(asleep, sequence)

    def finish_half(self, half: Half) -> Outcome | None:
        """Look whether all workers have finished a half, and sent no message."""
        number, sequence = half.number, half.sequence
        if number not in self._whole:
            return None
        begin = perf_counter()
        if not self._lines[number].wait(sequence, self._patience if self._last_wait < SPIN_SECONDS else 0.0):
            return None
        now = perf_counter()
        self._last_wait = now - begin
        self._note_answers(len(half.rows), now)
        del self._whole[number]
        self._board.arrivals_seen(len(half.rows))
        return self._told.read_together(half.workers, sequence, number)

    def _take_apart(self) -> None:
        """From now on, what was ordered as a whole is looked at worker by worker, or environment by environment."""
        if self._stepping != NOT_UNDER_WAY:
            self._awaited.update(dict.fromkeys(self._workers, Command(self._stepping, Op.STEP)))
            self._stepping = NOT_UNDER_WAY
        for half in self._whole.values():
            self._tickets.give(half.rows, half.sequence)
        self._whole.clear()

    def _glance(self) -> list[Event]:
        """What the board says."""
        events: list[Event] = []
        board = self._board
        self._take_apart()
        # Where the board always has something, nobody would wait until there is room.
        for worker in [*self.crew.unsent]:
            self.crew.send_rest(worker)
        for worker, command in [*self._awaited.items()]:
            if board.is_done(worker, command.sequence):
                del self._awaited[worker]
                events.append(Reply(worker, command.sequence, self._told.read(worker, command.sequence)))
            elif board.has_mail(worker):
                self._read(worker, events)
        if self._tickets:
            self._take_tickets(events)
            self._take_letters(events)
            for worker in range(self.num_workers):
                if board.has_mail(worker):
                    self._read(worker, events)
        return events

    def _take_tickets(self, events: list[Event]) -> None:
        """Those that have reported themselves in the arena, all that were asked at the same time together."""
        rows, sequences = self._tickets.arrived(self.arena.tickets)
        if not len(rows):
            return
        told = self._told.read_alone(set(sequences.tolist()))
        if told:
            self._arrive_each(rows.tolist(), told, events)
            return
        self._tickets.take(rows)
        self._board.arrivals_seen(len(rows))
        first = int(sequences[0])
        if (sequences == first).all():
            events.append(Arrivals(rows.tolist(), first))
            return
        asked = np.unique(sequences).tolist()
        events.extend(Arrivals(rows[sequences == sequence].tolist(), sequence) for sequence in asked)

    def _take_letters(self, events: list[Event]) -> None:
        """Those that were asked alone, and have reported themselves in a letter."""
        for row, sequence, outcome in self._told.read_arrived():
            if self._tickets[row] == sequence:
                self._arrive(row, outcome, events)
            else:
                self.dropped_replies += 1

    def _arrive_each(self, rows: Sequence[int], told: Mapping[int, Outcome], events: list[Event]) -> None:
        """Those of halves that are looked at environment by environment, some of which have told something."""
        for row in rows:
            self._arrive(row, told.get(row, NOTHING), events)

    def _arrive(self, row: int, outcome: Outcome, events: list[Event]) -> None:
        events.append(Arrival(row, self._tickets[row], outcome))
        self._tickets.take([row])
        self._board.arrivals_seen(1)

    def _read(self, worker: int, events: list[Event]) -> None:
        """Take everything that a worker has sent."""
        member = self.crew[worker]
        self._take_apart()
        try:
            frames, closed = member.channel.receive()
        except ProtocolError as error:
            self._bury(worker, member, events, babble=str(error))
            return
        for frame in frames:
            self._take(worker, member, frame, events)
        if closed:
            self._bury(worker, member, events)

    def _gather(self, timeout: float | None) -> list[Event]:
        """Wait, then take everything that is there: first what workers sent, then who died."""
        events: list[Event] = []
        talking, ended = self.crew.waiter.wait(timeout)
        for worker in talking:
            if worker in self.crew.unsent:
                self.crew.send_rest(worker)
            self._read(worker, events)
        for worker in ended:
            member = self.crew[worker]
            if not member.dead and member.process.check():
                self._bury(worker, member, events)
        return events

    def _take(self, worker: int, member: Member, frame: Frame, events: list[Event]) -> None:
        if frame.kind == LOG:
            handle_record(frame.pickled)
            return
        if frame.kind == RING:
            return
        if frame.kind == ARRIVAL:
            self._take_arrival(worker, member, frame, events)
            return
        if frame.kind == FORM:
            self._take_form(worker, member, frame)
            return
        command = self._awaited.get(worker)
        if command is None or (frame.generation, frame.sequence) != (member.generation, command.sequence):
            self.dropped_replies += 1
            return
        del self._awaited[worker]
        if frame.raw:
            assert self._arena is not None
            unpack(self._arena.shipped, command.rows(member.recipe.rows), frame.raw)
        outcome = _unpickled(frame, command.op.label, member.recipe.rows) if frame.pickled else Outcome.empty()
        events.append(Reply(worker, frame.sequence, outcome))

    def _take_form(self, worker: int, member: Member, frame: Frame) -> None:
        if frame.generation == member.generation:
            half, sheet = frame.place + ALL, self.arena.sheet
            columns = pickle.loads(frame.pickled)
            self._told.draw_up(worker, half, columns, frame.sequence, room_of(sheet, member.recipe.rows, half))

    def _take_arrival(self, worker: int, member: Member, frame: Frame, events: list[Event]) -> None:
        row = frame.place
        is_current = frame.generation == member.generation and row in member.recipe.rows
        if not is_current or self._tickets[row] != frame.sequence:
            self.dropped_replies += 1
            return
        if frame.raw:
            assert self._arena is not None
            unpack(self._arena.shipped, range(row, row + 1), frame.raw)
        outcome = _unpickled(frame, "step", range(row, row + 1)) if frame.pickled else Outcome.empty()
        self._arrive(row, outcome, events)

    def _bury(self, worker: int, member: Member, events: list[Event], babble: str = "") -> None:
        """A worker is gone, or has to go because nothing it says can be believed any more."""
        self._take_apart()
        # The socket of a process that ends closes a moment before the process is gone.
        has_hung_up = False
        if babble or not member.process.wait(time.monotonic() + 1.0):
            has_hung_up = not babble and not member.process.is_ending()
            member.process.kill()
            member.process.wait(time.monotonic() + 2.0)
        if not babble:
            try:
                frames, _ = member.channel.receive()
            except ProtocolError:
                frames = []  # it died while it babbled
            for frame in frames:
                self._take(worker, member, frame, events)
            self._take_from_board(worker, member, events)
        member.dead = True
        self.crew.waiter.forget(worker)
        process = member.process
        has_hung_up |= process.exit_code == HUNG_UP
        exit_code = None if has_hung_up else process.exit_code
        events.append(Death(worker, process.pid, exit_code, process.peak_memory, babble, has_hung_up))

    def _take_from_board(self, worker: int, member: Member, events: list[Event]) -> None:
        """What a worker that has died had still finished."""
        command = self._awaited.get(worker)
        if not self._uses_board or self._arena is None:
            return
        if command is not None and self._board.is_done(worker, command.sequence):
            del self._awaited[worker]
            events.append(Reply(worker, command.sequence, self._told.read(worker, command.sequence)))
        self._take_letters(events)
        under_way = self._tickets.under_way(member.recipe.rows)
        arrived = [row for row in under_way if self._arena.tickets[row] == self._tickets[row]]
        self._arrive_each(arrived, self._told.read_alone({self._tickets[row] for row in arrived}), events)

    def replace(self, worker: int) -> None:
        """Put another process in the place of one that has died. What it was asked is forgotten."""
        self._take_apart()
        member = self.crew[worker]
        self._awaited.pop(worker, None)
        self._tickets.take(self._tickets.under_way(member.recipe.rows))
        self._told.forget(worker)
        self.crew.replace(worker)
        if self._arena is not None and self._shared is None:
            member.channel.max_raw = packed_nbytes(self._arena.shipped, member.recipe.rows)

    def start_spare(self) -> bool:
        """Have a process ready that can take the place of any worker, or be used to try something; whether there is one."""
        return self.crew.start_spare()

    def end_spare(self) -> None:
        """Give up the spare process; it may have been used."""
        self.crew.end_spare()
        self._awaited.pop(self.crew.spare, None)

    def stack(self, worker: int) -> str:
        """Where a worker is at this moment: its Python stack, as far as it can be had."""
        return self.crew.stack(worker)

    def last_words(self, worker: int) -> tuple[str, str]:
        """The stack in which a worker crashed, and the last it printed to its error output."""
        return self.crew.last_words(worker)

    def memory(self, worker: int) -> int | None:
        """How many bytes of memory a worker takes, where that can be told."""
        return self.crew.memory(worker)

    @contextmanager
    def doorbell(self) -> Iterator[int | None]:
        """The descriptor of the waiter, if it has one; workers ring as long as this lasts."""
        self._is_listening = True
        self._board.fall_asleep()
        try:
            yield self.crew.waiter.fileno()
        finally:
            self._is_listening = False
            self._board.wake_up()

    def progress(self, worker: int) -> int | None:
        """The environment this worker is, or was when it died, working on."""
        return self._board.progress(worker)

    def pid(self, worker: int) -> int:
        """The worker's process."""
        return self.crew[worker].pid

    def kill(self, worker: int) -> None:
        """End a worker and whatever it has started."""
        if not self.crew[worker].dead:
            self.crew[worker].process.kill()

    def close(self, grace: float) -> list[str]:
        """Ask, wait, then insist."""
        if not self.crew.is_started:
            self._release()
            return []
        with postponed:
            try:
                self._ask_to_leave(self.crew.alive(), grace)
            finally:
                # Also after an interrupt.
                late = [worker for worker in self.crew.alive() if worker != self.crew.spare]
                said = [self._why_late(worker, grace) for worker in late if grace > 0]
                self._release()
        return said

    def _ask_to_leave(self, workers: list[int], grace: float) -> None:
        if grace > 0:
            self.post([(worker, Command(0, Op.CLOSE)) for worker in workers])
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline and self.crew.alive():
            self.poll(min(0.1, max(0.0, deadline - time.monotonic())))

    def _why_late(self, worker: int, grace: float) -> str:
        return (
            f"worker {worker} (pid {self.pid(worker)}) did not end within {grace:.1f} s of close(): "
            f"{self._busy_with(worker)}; it is killed"
        )

    def _busy_with(self, worker: int) -> str:
        row = self.progress(worker)
        return "one of its environments was at work" if row is None else f"it was busy with environment {row}"

    def _release(self) -> None:
        self.crew.end()
        if self._shared is not None:
            self._shared.close(is_lent=self._lends)
        self._board.close()
        self._arena = None
        self._told.close()


class PipesBackend(ProcessBackend):
    """Each side has an arena of its own; rows travel through the socket."""

    name: ClassVar[str] = "pipes"
    shares_arena: ClassVar[bool] = False


class SharedMemoryBackend(ProcessBackend):
    """All sides see the same arena."""

    name: ClassVar[str] = "shm"
    shares_arena: ClassVar[bool] = True


def _unpickled(frame: Frame, phase: str, rows: range) -> Outcome:
    try:
        outcome: Outcome = pickle.loads(frame.pickled)
    except Exception as error:
        return unreadable(error, rows, phase)
    return outcome
