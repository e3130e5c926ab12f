"""``pipes`` and ``shm``: the environments in worker processes.

The two differ in one thing, where the arena lies. ``shm`` shares it, so that a step's message is only a header in each
direction. ``pipes`` gives each side an arena of its own, and the rows travel behind the header.
"""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import ClassVar

import cloudpickle
import numpy as np

from shoal.vector.backends.base import Addressed, RealTime, StartMethod
from shoal.vector.backends.board import FIRST_SLEEP_SECONDS, NAP_SECONDS, Board, writes_keep_their_order
from shoal.vector.backends.channel import ARRIVAL, FORM, LOG, RING, Channel, Frame
from shoal.vector.backends.fork_guard import disown, own
from shoal.vector.backends.form_reader import FormReader
from shoal.vector.backends.last_words import ask_for_stack, read_last_words
from shoal.vector.backends.launch import Launcher, Process, make_launcher
from shoal.vector.backends.lifeline import Lifeline
from shoal.vector.backends.limits import let_others_go_first, make_room_for, resident_bytes
from shoal.vector.backends.remote_log import LogSettings, handle_record
from shoal.vector.backends.shared_buffer import SharedBuffer
from shoal.vector.backends.waiting import Waiter, make_waiter
from shoal.vector.backends.worker import Briefing, Post
from shoal.vector.cpus import own_processors, usable_cpus
from shoal.vector.errors import CannotStart, ConfigurationError, ProtocolError, WorkerError
from shoal.vector.failures import Failure
from shoal.vector.halves import ALL, Half
from shoal.vector.info_forms import room_of
from shoal.vector.infos import EnvInfo
from shoal.vector.interrupts import postponed
from shoal.vector.layout import Arena, Array, pack, packed_nbytes, private_arena, unpack
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
from shoal.vector.registrations import own_registrations

logger = logging.getLogger(__name__)

NOT_UNDER_WAY = -1


class _Member:
    """One worker as the caller sees it."""

    def __init__(self, recipe: Recipe, briefing: bytes) -> None:
        self.recipe = recipe
        self.briefing = briefing
        self.channel: Channel
        self.process: Process
        self.words: SharedBuffer | None = None
        self.generation = 0
        self.dead = True
        self._is_killed = False

    @property
    def is_started(self) -> bool:
        """Whether there has been a process."""
        return hasattr(self, "process")

    def employ(self, channel: Channel, process: Process) -> None:
        """Let this process be the worker from now on."""
        self.channel, self.process, self.dead, self._is_killed = channel, process, False, False

    def kill(self) -> None:
        """End its process and whatever that has started, once: when it is gone, another may have its number."""
        if not self._is_killed:
            self._is_killed = True
            self.process.kill()

    def let_go(self) -> None:
        """End its process, whatever that has started too, and give up what connects to it."""
        if self.is_started:
            self.kill()
            self.process.wait(time.monotonic() + 2.0)
            self.process.forget()
            disown(self.channel.socket.fileno())
            self.channel.socket.close()
            del self.process, self.channel
        self.dead = True


class ProcessBackend(RealTime):
    """What ``pipes`` and ``shm`` have in common."""

    name: ClassVar[str] = "processes"
    in_process: ClassVar[bool] = False
    shares_arena: ClassVar[bool]

    def __init__(self, recipes: list[Recipe], start_method: StartMethod, *, pin_workers: bool) -> None:
        self.num_workers = len(recipes)
        self._workers = range(self.num_workers)
        self.start_method = start_method
        self._members = [_Member(recipe, _brief(recipe)) for recipe in recipes]
        self._members.append(_Member(Recipe(range(0), []), b""))  # the spare, behind all others
        self._spare = self.num_workers
        self._absent: set[int] = set()
        self._spare_is_free = False
        self._launcher: Launcher | None = None
        self._waiter: Waiter | None = None
        self._lifeline = Lifeline()
        self._board = Board(self.num_workers + 1)
        self._uses_board = self.has_sheet = self.shares_arena and writes_keep_their_order()
        # Who looks around when there are more workers than processors takes time from those that work.
        self._spins = self.num_workers <= usable_cpus()
        self._patience = SPIN_SECONDS if self._spins else 0.0
        self._awaited: dict[int, Command] = {}
        """The commands that have no reply yet, by worker."""
        self._unsent: set[int] = set()
        """Workers to whom something could not be sent at once."""
        self._last_wait = 0.0
        self._lines = {ALL: self._board.line(self._workers)}
        """How steps of all environments, and of halves, are ordered on the board."""
        self._tickets = np.full(recipes[-1].rows.stop, NOT_UNDER_WAY, dtype=np.int64)
        """The numbers of the commands that environments have been given alone, and have not carried out."""
        self._num_under_way = 0
        self._stepping = NOT_UNDER_WAY
        """The number of the ordinary step that is under way, unless somebody has asked for workers one by one ..."""
        self._whole: dict[int, Half] = {}
        """... and halves that are, of which nobody has asked for the environments one by one."""
        self._forms = FormReader(self._board)
        """What environments tell in every step, where that is filled in in the arena."""
        self._is_listening = False
        """Whether somebody waits at the doorbell, so that workers have to ring it."""
        self._shared = SharedBuffer("shoal-arena") if self.shares_arena else None
        self._arena: Arena | None = None
        self._processors = own_processors(self.num_workers) if pin_workers else []
        self.dropped_replies = 0

    def start(self) -> None:
        """Start all workers. They construct in parallel once they are told to."""
        make_room_for(self.num_workers)
        self._waiter = make_waiter(spins=self._spins and not self._uses_board)
        self._launcher = make_launcher(self.start_method)
        for worker in range(self.num_workers):
            if worker not in self._absent:
                self._launch(worker)

    def do_without(self, worker: int) -> None:
        """Leave the place of this worker empty: somebody else does its work."""
        self._absent.add(worker)
        self._members[worker].let_go()

    def _launch(self, worker: int) -> None:
        assert self._launcher is not None
        assert self._waiter is not None
        member = self._members[worker]
        words = SharedBuffer("shoal-last-words")
        ours, theirs = socket.socketpair()
        own(ours.fileno())
        with theirs:
            post = Post(
                worker=worker,
                first_row=member.recipe.rows.start,
                generation=member.generation,
                channel_fd=theirs.fileno(),
                board_fd=self._board.fd,
                lifeline_fd=self._lifeline.fd,
                words_fd=words.fd,
                arena_fd=self._shared.fd if self._shared is not None else -1,
                uses_board=self._uses_board,
                spins=self._spins,
                processor=self._processor_of(worker),
            )
            try:
                process = self._launcher.launch(post)
            except BaseException as error:
                disown(ours.fileno())
                ours.close()
                words.close()
                if isinstance(error, OSError | WorkerError):
                    raise CannotStart(f"worker {worker} of {self.num_workers} could not be started: {error}") from error
                raise
        if member.words is not None:
            member.words.close()
        member.words = words
        member.employ(Channel(ours), process)
        self._waiter.watch(worker, ours.fileno(), process.sentinel)
        rows = member.recipe.rows
        doing = f"environments {rows.start} to {rows.stop - 1}" if worker != self._spare else "a spare"
        logger.debug("worker %d is process %d (%s, %s): %s", worker, process.pid, self.name, self.start_method, doing)

    def _processor_of(self, worker: int) -> int:
        return self._processors[worker] if worker < len(self._processors) else -1

    def attach(self, attachment: Attachment, sequence: int) -> Arena:
        """Allocate the arena and tell every worker."""
        if self._shared is not None:
            layout = attachment.layout
            self._arena = Arena(layout, self._shared.allocate(layout.nbytes))
        else:
            self._arena = private_arena(attachment.layout)
            for member in self._members[: self.num_workers]:
                if member.is_started:
                    member.channel.max_raw = packed_nbytes(self._arena.shipped, member.recipe.rows)
        command = Command(sequence, Op.ATTACH, attachment)
        self.post([(worker, command) for worker in range(self.num_workers) if worker not in self._absent])
        return self._arena

    @property
    def arena(self) -> Arena:
        """The caller's view of it."""
        assert self._arena is not None
        return self._arena

    def post(self, commands: Sequence[Addressed]) -> None:
        """Send commands. What a socket does not take at once is sent while polling."""
        assert self._waiter is not None
        # Everything is pickled before anything is sent: what cannot be sent to one worker reaches none.
        pickled = [self._pickled(worker, command) for worker, command in commands]
        for (worker, command), data in zip(commands, pickled, strict=True):
            member = self._members[worker]
            if worker == self._spare and command.op is Op.CONSTRUCT:
                # It tries something, and is in nobody's way while it does. Who has done so never becomes a worker.
                member.recipe, self._spare_is_free = command.payload, False
                let_others_go_first(member.process.pid)
            if command.op in EACH:
                alone = command.rows(member.recipe.rows)
                self._tickets[alone] = command.sequence
                self._num_under_way += len(alone)
            else:
                self._awaited[worker] = command
            if self._uses_board and command.op is Op.STEP and not data:
                self._ring(self._board.line([worker]).order(command.sequence), command.sequence)
                continue
            raw = None
            if self._shared is None and command.op in (Op.STEP, Op.STEP_EACH):
                assert self._arena is not None
                steps = command.payload or Steps(member.recipe.rows, [], ())
                raw = pack(self._arena.given_actions(steps.wide), steps.rows)
            if not member.channel.send(member.generation, command.sequence, command.op, data, raw):
                self._note_unsent(worker)
            self._board.mail_sent(worker)

    def _pickled(self, worker: int, command: Command) -> bytes:
        if command.op is Op.CONSTRUCT:
            if worker == self._spare:
                return _brief(command.payload)
            return self._members[worker].briefing
        if command.payload is None:
            return b""
        try:
            if isinstance(command.payload, Steps) and not command.payload.loose:
                return pickle.dumps(command.payload, protocol=5)  # nothing but numbers, for which this is quicker
            data: bytes = cloudpickle.dumps(command.payload, protocol=5)
        except Exception as error:
            raise ConfigurationError(
                f"what was given to {command.op.label}() cannot be sent to a worker process: "
                f"{type(error).__name__}: {error}. No environment was touched."
            ) from error
        return data

    def poll(self, timeout: float | None, arrivals: int = 1) -> list[Event]:
        """Wait for workers, and return what they replied and who died; perhaps nothing, even before the timeout."""
        if not self._uses_board:
            return self._gather(timeout)
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
            and self._spins
            and self._last_wait < SPIN_SECONDS
            and (not self._awaited or [*self._awaited] == [self._spare])
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
            member = self._members[worker]
            member.channel.send(member.generation, sequence, RING)

    def finish_step(self, sequence: int) -> Outcome | None:
        """Look whether all have finished the ordinary step, and sent no message. Otherwise :meth:`poll` goes on."""
        if self._stepping != sequence:
            return None
        begin = perf_counter()
        if not self._lines[ALL].wait(sequence, self._patience):
            return None
        self._last_wait = perf_counter() - begin
        self._stepping = NOT_UNDER_WAY
        return self._forms.read_together(self._workers, sequence)

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
        line = self._lines[number]
        if line.is_done(sequence):
            self._last_wait = 0.0
        else:
            begin = perf_counter()
            if not line.wait(sequence, self._patience if self._last_wait < SPIN_SECONDS else 0.0):
                return None
            self._last_wait = perf_counter() - begin
        del self._whole[number]
        self._board.arrivals_seen(len(half.rows))
        return self._forms.read_together(half.workers, sequence, number)

    def _take_apart(self) -> None:
        """From now on, what was ordered as a whole is looked at worker by worker, or environment by environment."""
        if self._stepping != NOT_UNDER_WAY:
            self._awaited.update(dict.fromkeys(self._workers, Command(self._stepping, Op.STEP)))
            self._stepping = NOT_UNDER_WAY
        for half in self._whole.values():
            self._tickets[half.rows] = half.sequence
            self._num_under_way += len(half.rows)
        self._whole.clear()

    def _glance(self) -> list[Event]:
        """What the board says."""
        events: list[Event] = []
        board = self._board
        self._take_apart()
        for worker in [*self._unsent]:  # where the board always has something, nobody would wait until there is room
            self._send_rest(worker)
        for worker, command in [*self._awaited.items()]:
            if board.is_done(worker, command.sequence):
                del self._awaited[worker]
                events.append(Reply(worker, command.sequence, self._forms.read(worker, command.sequence)))
            elif board.has_mail(worker):
                self._read(worker, events)
        if self._num_under_way:
            assert self._arena is not None
            self._take_tickets(self._arena.tickets, events)
            for worker in range(self.num_workers):
                if board.has_mail(worker):
                    self._read(worker, events)
        return events

    def _take_tickets(self, tickets: Array, events: list[Event]) -> None:
        """Those that have reported themselves in the arena, all that were asked at the same time together."""
        rows = (tickets == self._tickets).nonzero()[0]
        if not len(rows):
            return
        sequences = self._tickets[rows]
        told = self._forms.read_alone(set(sequences.tolist()))
        if told:
            self._arrive_each(rows.tolist(), told, events)
            return
        self._tickets[rows] = NOT_UNDER_WAY
        self._num_under_way -= len(rows)
        self._board.arrivals_seen(len(rows))
        first = int(sequences[0])
        if (sequences == first).all():
            events.append(Arrivals(rows.tolist(), first))
            return
        asked = np.unique(sequences).tolist()
        events.extend(Arrivals(rows[sequences == sequence].tolist(), sequence) for sequence in asked)

    def _arrive_each(self, rows: Sequence[int], told: Mapping[int, EnvInfo], events: list[Event]) -> None:
        """Those of halves that are looked at environment by environment, some of which have told something."""
        for row in rows:
            self._arrive(row, Outcome([told[row]], [], [], []) if row in told else NOTHING, events)

    def _arrive(self, row: int, outcome: Outcome, events: list[Event]) -> None:
        events.append(Arrival(row, int(self._tickets[row]), outcome))
        self._tickets[row] = NOT_UNDER_WAY
        self._num_under_way -= 1
        self._board.arrivals_seen(1)

    def _read(self, worker: int, events: list[Event]) -> None:
        """Take everything that a worker has sent."""
        member = self._members[worker]
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

    def _note_unsent(self, worker: int) -> None:
        assert self._waiter is not None
        self._unsent.add(worker)
        self._waiter.watch_for_room(worker, True)

    def _send_rest(self, worker: int) -> None:
        """Send what a socket did not take at once, or some more of it."""
        assert self._waiter is not None
        member = self._members[worker]
        if member.dead or member.channel.flush():
            self._unsent.discard(worker)
            self._waiter.watch_for_room(worker, False)

    def _gather(self, timeout: float | None) -> list[Event]:
        """Wait, then take everything that is there: first what workers sent, then who died."""
        assert self._waiter is not None
        events: list[Event] = []
        talking, ended = self._waiter.wait(timeout)
        for worker in talking:
            member = self._members[worker]
            if worker in self._unsent:
                self._send_rest(worker)
            self._read(worker, events)
        for worker in ended:
            member = self._members[worker]
            if not member.dead and member.process.check():
                self._bury(worker, member, events)
        return events

    def _take(self, worker: int, member: _Member, frame: Frame, events: list[Event]) -> None:
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
        label, first_row = command.op.label, member.recipe.rows.start
        outcome = _unpickled(frame, label, first_row) if frame.pickled else Outcome.empty()
        events.append(Reply(worker, frame.sequence, outcome))

    def _take_form(self, worker: int, member: _Member, frame: Frame) -> None:
        if frame.generation == member.generation:
            half, sheet = frame.place + ALL, self.arena.sheet
            columns = pickle.loads(frame.pickled)
            self._forms.draw_up(worker, half, columns, frame.sequence, room_of(sheet, member.recipe.rows, half))

    def _take_arrival(self, worker: int, member: _Member, frame: Frame, events: list[Event]) -> None:
        row = frame.place
        is_current = frame.generation == member.generation and row in member.recipe.rows
        if not is_current or self._tickets[row] != frame.sequence:
            self.dropped_replies += 1
            return
        if frame.raw:
            assert self._arena is not None
            unpack(self._arena.shipped, range(row, row + 1), frame.raw)
        outcome = _unpickled(frame, "step", row) if frame.pickled else Outcome.empty()
        self._arrive(row, outcome, events)

    def _bury(self, worker: int, member: _Member, events: list[Event], babble: str = "") -> None:
        """A worker is gone, or has to go because nothing it says can be believed any more."""
        assert self._waiter is not None
        self._take_apart()
        # The socket of a process that ends closes a moment before the process is gone.
        if babble or not member.process.wait(time.monotonic() + 1.0):
            member.process.kill()
            member.process.wait(time.monotonic() + 1.0)
        if not babble:
            try:
                frames, _ = member.channel.receive()
            except ProtocolError:
                frames = []  # it died while it babbled
            for frame in frames:
                self._take(worker, member, frame, events)
            self._take_from_board(worker, member, events)
        member.dead = True
        self._waiter.forget(worker)
        process = member.process
        events.append(Death(worker, process.pid, process.exit_code, process.peak_memory, babble))

    def _take_from_board(self, worker: int, member: _Member, events: list[Event]) -> None:
        """What a worker that has died had still finished."""
        command = self._awaited.get(worker)
        if not self._uses_board or self._arena is None:
            return
        if command is not None and self._board.is_done(worker, command.sequence):
            del self._awaited[worker]
            events.append(Reply(worker, command.sequence, self._forms.read(worker, command.sequence)))
        under_way = [row for row in member.recipe.rows if self._tickets[row] != NOT_UNDER_WAY]
        arrived = [row for row in under_way if self._arena.tickets[row] == self._tickets[row]]
        self._arrive_each(arrived, self._forms.read_alone({int(self._tickets[row]) for row in arrived}), events)

    def replace(self, worker: int) -> None:
        """Put another process in the place of one that has died. What it was asked is forgotten."""
        self._take_apart()
        member = self._members[worker]
        member.let_go()
        self._awaited.pop(worker, None)
        for row in member.recipe.rows:
            if self._tickets[row] != NOT_UNDER_WAY:
                self._tickets[row] = NOT_UNDER_WAY
                self._num_under_way -= 1
        self._board.clear(worker)
        self._forms.forget(worker)
        member.generation += 1
        if self._spare_is_free and not self._members[self._spare].dead:
            self._take_spare(worker, member)
        else:
            self._launch(worker)
        if self._arena is not None and self._shared is None:
            member.channel.max_raw = packed_nbytes(self._arena.shipped, member.recipe.rows)

    def start_spare(self) -> bool:
        """Have a process ready that can take the place of any worker, or be used to try something; whether there is one."""
        spare = self._members[self._spare]
        if not spare.dead:
            return self._spare_is_free
        spare.let_go()
        self._board.clear(self._spare)
        spare.generation += 1
        try:
            self._launch(self._spare)
        except CannotStart:
            return False
        self._spare_is_free = True
        if not spare.channel.send(spare.generation, 0, Op.PREPARE, self._members[0].briefing):
            self._note_unsent(self._spare)
        self._board.mail_sent(self._spare)
        return True

    def end_spare(self) -> None:
        """Give up the spare process; it may have been used. Who needs its place next waits until it is gone."""
        assert self._waiter is not None
        spare = self._members[self._spare]
        if not spare.dead:
            self._waiter.forget(self._spare)
        if spare.is_started:
            spare.kill()
        spare.dead = True
        self._awaited.pop(self._spare, None)
        self._spare_is_free = False

    def _take_spare(self, worker: int, member: _Member) -> None:
        """Let the spare process be this worker from now on."""
        assert self._waiter is not None
        spare = self._members[self._spare]
        self._waiter.forget(self._spare)
        place = {
            "worker": worker,
            "first_row": member.recipe.rows.start,
            "generation": member.generation,
            "processor": self._processor_of(worker),
        }
        member.employ(spare.channel, spare.process)
        member.words, spare.words = spare.words, member.words
        del spare.channel, spare.process
        spare.dead, self._spare_is_free = True, False
        if not member.channel.send(spare.generation, 0, Op.TAKE_PLACE, pickle.dumps(place)):
            self._note_unsent(worker)
        self._board.mail_sent(self._spare)
        self._waiter.watch(worker, member.channel.socket.fileno(), member.process.sentinel)
        logger.debug("worker %d is process %d, which was ready", worker, member.process.pid)

    def stack(self, worker: int) -> str:
        """Where a worker is at this moment: its Python stack, as far as it can be had."""
        member = self._members[worker]
        return "" if member.dead or member.words is None else ask_for_stack(member.words.fd, member.process.pid)

    def last_words(self, worker: int) -> tuple[str, str]:
        """The stack in which a worker crashed, and the last it printed to its error output."""
        words = self._members[worker].words
        return ("", "") if words is None else read_last_words(words.fd)

    def memory(self, worker: int) -> int | None:
        """How many bytes of memory a worker takes, where that can be told."""
        member = self._members[worker]
        return None if member.dead else resident_bytes(member.process.pid)

    @contextmanager
    def doorbell(self) -> Iterator[int | None]:
        """The descriptor of the waiter, if it has one; workers ring as long as this lasts."""
        assert self._waiter is not None
        self._is_listening = True
        self._board.fall_asleep()
        try:
            yield self._waiter.fileno()
        finally:
            self._is_listening = False
            self._board.wake_up()

    def progress(self, worker: int) -> int | None:
        """The environment this worker is, or was when it died, working on."""
        return self._board.progress(worker)

    def pid(self, worker: int) -> int:
        """The worker's process."""
        return self._members[worker].process.pid

    def kill(self, worker: int) -> None:
        """End a worker and whatever it has started."""
        self._members[worker].process.kill()

    def close(self, grace: float) -> list[str]:
        """Ask, wait, then insist."""
        if self._waiter is None:
            self._release()
            return []
        started = [worker for worker, member in enumerate(self._members) if member.is_started]
        with postponed:
            try:
                self._ask_to_leave([worker for worker in started if not self._members[worker].dead], grace)
            finally:
                # Also after an interrupt, and whatever their environments have started.
                late = [worker for worker in started if not self._members[worker].dead and worker != self._spare]
                said = [self._why_late(worker, grace) for worker in late if grace > 0]
                for worker in started:
                    self._members[worker].kill()
                self._release()
        return said

    def _ask_to_leave(self, workers: list[int], grace: float) -> None:
        if grace > 0:
            self.post([(worker, Command(0, Op.CLOSE)) for worker in workers])
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline and not all(self._members[worker].dead for worker in workers):
            self.poll(min(0.1, max(0.0, deadline - time.monotonic())))

    def _why_late(self, worker: int, grace: float) -> str:
        return (
            f"worker {worker} (pid {self._members[worker].process.pid}) did not end within {grace:.1f} s of close(): "
            f"{self._busy_with(worker)}; it is killed"
        )

    def _busy_with(self, worker: int) -> str:
        row = self.progress(worker)
        return "one of its environments was at work" if row is None else f"it was busy with environment {row}"

    def _release(self) -> None:
        for member in self._members:
            member.let_go()
            if member.words is not None:
                member.words.close()
        self._lifeline.close()
        if self._launcher is not None:
            self._launcher.close()
            self._launcher = None
        if self._waiter is not None:
            self._waiter.close()
            self._waiter = None
        if self._shared is not None:
            self._shared.close()
        self._board.close()
        # A mapping holds a descriptor of its own for as long as anything refers to it.
        self._arena = None
        self._forms.close()
        self._members.clear()


class PipesBackend(ProcessBackend):
    """Each side has an arena of its own; rows travel through the socket."""

    name: ClassVar[str] = "pipes"
    shares_arena: ClassVar[bool] = False


class SharedMemoryBackend(ProcessBackend):
    """All sides see the same arena."""

    name: ClassVar[str] = "shm"
    shares_arena: ClassVar[bool] = True


def _brief(recipe: Recipe) -> bytes:
    """Everything a worker is told first, as bytes; fails here, before anything is started."""
    try:
        pickled_recipe = cloudpickle.dumps(recipe, protocol=5)
    except Exception as error:
        for row, env_fn in zip(recipe.rows, recipe.env_fns, strict=True):
            try:
                cloudpickle.dumps(env_fn)
            except Exception as cause:
                raise ConfigurationError(
                    f"the factory of environment {row} ({env_fn!r}) cannot be sent to a worker process: "
                    f"{type(cause).__name__}: {cause}. Create what it refers to inside the factory, "
                    'or use backend="serial" or "threads".'
                ) from cause
        raise ConfigurationError(f"the environments cannot be sent to a worker process: {error}") from error
    briefing = Briefing(
        log_settings=LogSettings.of_this_process(),
        authkey=bytes(multiprocessing.current_process().authkey),
        pickled_recipe=pickled_recipe,
        registrations=own_registrations(),
    )
    return pickle.dumps(briefing, protocol=5)


def _unpickled(frame: Frame, phase: str, env_index: int) -> Outcome:
    try:
        outcome: Outcome = pickle.loads(frame.pickled)
    except Exception as error:
        # The worker could pickle it, but this process cannot read it: a class that only the worker can import.
        failure = Failure.of(error, env_index=env_index, phase=phase)
        return Outcome([], [], [failure], [])
    return outcome
