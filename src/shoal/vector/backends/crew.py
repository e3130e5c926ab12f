"""The crew: the worker processes of a backend, from the first to the last.

Each has a place, which stays when its process is replaced: a recipe, a socket, what it leaves behind when it dies. Behind all
places is one more, for a *spare*: a process that has imported what workers import, and can take any place at once, or be used
to try something::

    place 0      place 1     ...    spare
    process 71   process 72         process 80
                    ✝                   │
                 process 80 ◀───────────┘

What workers are told to do, and what they answer, is the backend's.
"""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from shoal.vector.backends.base import StartMethod
from shoal.vector.backends.board import Board
from shoal.vector.backends.channel import Channel
from shoal.vector.backends.fork_guard import disown, own
from shoal.vector.backends.inherited import Inheritance
from shoal.vector.backends.last_words import ask_for_stack, read_last_words
from shoal.vector.backends.launch import Launcher, NurseryGone, Process, make_launcher
from shoal.vector.backends.lifeline import Lifeline
from shoal.vector.backends.limits import (
    hurry,
    is_out_of_descriptors,
    let_others_go_first,
    resident_bytes,
    why_no_process,
)
from shoal.vector.backends.reaping import ask_again, see_off
from shoal.vector.backends.remote_log import LogSettings
from shoal.vector.backends.shared_buffer import SharedBuffer
from shoal.vector.backends.waiting import Waiter, make_waiter
from shoal.vector.backends.worker import Briefing, Post
from shoal.vector.cpus import own_processors
from shoal.vector.errors import CannotStart, ConfigurationError, OutOfDescriptors, WorkerError
from shoal.vector.messages import Op, Recipe
from shoal.vector.pickling import dump_by_value
from shoal.vector.registrations import own_registrations

logger = logging.getLogger(__name__)

DYING_SECONDS = 2.0
"""For how long the end of a process that was killed is waited for."""


class Member:
    """One place, and who is in it."""

    def __init__(self, recipe: Recipe, briefing: bytes) -> None:
        self.recipe = recipe
        self.briefing = briefing
        self.channel: Channel
        self.process: Process
        self.pid = -1
        """Of its process, or of the last one."""
        self.words: SharedBuffer | None = None
        self.generation = 0
        self.dead = True
        self._is_killed = False

    @property
    def is_started(self) -> bool:
        """Whether there has been a process."""
        return hasattr(self, "process")

    def employ(self, channel: Channel, process: Process, words: SharedBuffer | None) -> None:
        """Let this process be the worker from now on."""
        self.channel, self.process, self.words = channel, process, words
        self.pid, self.dead, self._is_killed = process.pid, False, False

    def kill(self) -> None:
        """End its process and whatever that has started, once: when it is gone, another may have its number."""
        if not self._is_killed:
            self._is_killed = True
            if self.recipe.lets_others_go_first:
                hurry(self.process.pid)
            self.process.kill()

    def let_go(self) -> None:
        """End its process, whatever that has started too, and give up what connects to it."""
        if self.is_started:
            self.kill()
            see_off(self.process, DYING_SECONDS)
            _close(self.channel.socket)
            del self.process, self.channel
        if self.words is not None:
            self.words.close()
            self.words = None
        self.dead = True


class Crew:
    """The places of all workers, and the spare's."""

    waiter: Waiter
    """What waits for any of them; from :meth:`start` on."""

    def __init__(
        self, members: Sequence[Member], start_method: StartMethod, board: Board, arena: SharedBuffer | None,
        *, uses_board: bool, is_pinned: bool, start_seconds: float,
    ) -> None:  # fmt: skip
        self.spare = len(members)
        """The number of its place."""
        self._members = [*members, Member(Recipe(range(0), []), b"")]
        self.absent: set[int] = set()
        """Places that stay empty: their work is done in the caller's process."""
        self.unsent: set[int] = set()
        """Workers to whom something could not be sent at once."""
        self._start_method: StartMethod = start_method
        self._board, self._arena = board, arena
        self._uses_board = uses_board
        self._processors = own_processors(len(members)) if is_pinned else []
        self._start_seconds = start_seconds
        self._spare_is_free = False
        self._launcher: Launcher | None = None
        self._lifeline = Lifeline()

    def __getitem__(self, worker: int) -> Member:
        return self._members[worker]

    def __iter__(self) -> Iterator[Member]:
        """All workers, without the spare."""
        return iter(self._members[: self.spare])

    @property
    def is_started(self) -> bool:
        """Whether it has been, and has not ended."""
        return self._launcher is not None

    def start(self) -> None:
        """Start all workers."""
        modules = dict.fromkeys(
            name
            for member in self._members
            for factory in member.recipe.env_fns
            for name in getattr(factory, "preload", ())
        )
        self._launcher = make_launcher(self._start_method, self._start_seconds, tuple(modules))
        self.waiter = make_waiter()
        for worker in range(self.spare):
            if worker not in self.absent:
                self._launch(worker)

    def _launch(self, worker: int) -> None:
        """Put a process in an empty place. If that fails, the place is as empty as before, and it can be tried again."""
        ask_again()
        while True:
            try:
                self._start_in(worker)
                break
            except NurseryGone:
                continue  # another one is asked, until the launcher gives up
            except (OSError, WorkerError) as error:
                why = why_no_process(error) if isinstance(error, OSError) else str(error)
                lacks_descriptors = isinstance(error, OutOfDescriptors) or is_out_of_descriptors(error)
                raise (OutOfDescriptors if lacks_descriptors else CannotStart)(
                    f"worker {worker} of {self.spare} could not be started: {why}"
                ) from error
        rows, process = self._members[worker].recipe.rows, self._members[worker].process
        doing = f"environments {rows.start} to {rows.stop - 1}" if worker != self.spare else "a spare"
        logger.debug("worker %d is process %d (%s): %s", worker, process.pid, self._start_method, doing)

    def _start_in(self, worker: int) -> None:
        assert self._launcher is not None
        member = self._members[worker]
        with ExitStack() as undo:
            words = SharedBuffer("shoal-last-words")
            undo.callback(words.close)
            ours, theirs = socket.socketpair()
            own(ours.fileno())
            undo.callback(_close, ours)
            with theirs:
                process = self._launcher.launch(self._post(worker, theirs.fileno(), words.fd))
            undo.callback(_end, process)
            undo.callback(self.waiter.forget, worker)
            self.waiter.watch(worker, ours.fileno(), process.sentinel)
            undo.pop_all()
            member.employ(Channel(ours), process, words)

    def _post(self, worker: int, channel_fd: int, words_fd: int) -> Post:
        member = self._members[worker]
        return Post(
            worker=worker,
            first_row=member.recipe.rows.start,
            generation=member.generation,
            channel_fd=channel_fd,
            board_fd=self._board.fd,
            lifeline_fd=self._lifeline.fd,
            words_fd=words_fd,
            arena_fd=self._arena.fd if self._arena is not None else -1,
            uses_board=self._uses_board,
            num_mailboxes=self._board.num_mailboxes,
            processor=self._processor_of(worker),
        )

    def _processor_of(self, worker: int) -> int:
        return self._processors[worker] if worker < len(self._processors) else -1

    # -- sending -----------------------------------------------------------------------------------------------------

    def send(self, worker: int, sequence: int, kind: int, pickled: bytes, raw: Any = None) -> None:
        """Send a message. What the socket does not take at once is sent later, by :meth:`send_rest`."""
        member = self._members[worker]
        if not member.channel.send(member.generation, sequence, kind, pickled, raw):
            self.unsent.add(worker)
            self.waiter.watch_for_room(worker, True)
        self._board.mail_sent(worker)

    def send_rest(self, worker: int) -> None:
        """Send what a socket did not take at once, or some more of it."""
        member = self._members[worker]
        if member.dead or member.channel.flush():
            self.unsent.discard(worker)
            self.waiter.watch_for_room(worker, False)

    # -- replacing ---------------------------------------------------------------------------------------------------

    def replace(self, worker: int) -> None:
        """Put another process in the place of one that has died."""
        member = self._members[worker]
        member.let_go()
        self.unsent.discard(worker)
        self._board.clear(worker)
        member.generation += 1
        if self._spare_is_free and not self._members[self.spare].dead:
            self._let_spare_take(worker, member)
        else:
            self._launch(worker)

    def start_spare(self) -> bool:
        """Have a process ready that can take any place, or be used to try something; whether there is one, and free."""
        spare = self._members[self.spare]
        if not spare.dead:
            return self._spare_is_free
        spare.let_go()
        self.unsent.discard(self.spare)
        self._board.clear(self.spare)
        spare.generation += 1
        try:
            self._launch(self.spare)
        except CannotStart:
            return False
        self._spare_is_free = True
        self.send(self.spare, 0, Op.PREPARE, self._members[0].briefing)
        return True

    def use_spare(self, recipe: Recipe) -> None:
        """Let the spare try something. Who has done so never becomes a worker."""
        spare = self._members[self.spare]
        spare.recipe, self._spare_is_free = recipe, False
        if recipe.lets_others_go_first:
            let_others_go_first(spare.process.pid)

    def end_spare(self) -> None:
        """Give up the spare process; it may have been used. Who needs its place next waits until it is gone."""
        spare = self._members[self.spare]
        if not spare.dead:
            self.waiter.forget(self.spare)
        if spare.is_started:
            spare.kill()
        self.unsent.discard(self.spare)
        spare.dead, self._spare_is_free = True, False

    def _let_spare_take(self, worker: int, member: Member) -> None:
        """Let the spare process be this worker from now on."""
        spare = self._members[self.spare]
        place = {
            "worker": worker,
            "first_row": member.recipe.rows.start,
            "generation": member.generation,
            "processor": self._processor_of(worker),
        }
        self.send(self.spare, 0, Op.TAKE_PLACE, pickle.dumps(place))
        self.waiter.forget(self.spare)
        member.employ(spare.channel, spare.process, spare.words)
        del spare.channel, spare.process
        spare.words, spare.dead, self._spare_is_free = None, True, False
        self.waiter.watch(worker, member.channel.socket.fileno(), member.process.sentinel)
        if self.spare in self.unsent:
            self.unsent.discard(self.spare)
            self.unsent.add(worker)
            self.waiter.watch_for_room(worker, True)
        logger.debug("worker %d is process %d, which was ready", worker, member.process.pid)

    # -- asking about them -------------------------------------------------------------------------------------------

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

    # -- ending ------------------------------------------------------------------------------------------------------

    def alive(self) -> list[int]:
        """Those that are not known to be dead, the spare included."""
        return [worker for worker, member in enumerate(self._members) if member.is_started and not member.dead]

    def end(self) -> None:
        """End all of them, whatever their environments have started too, and give back what connects to them."""
        for member in self._members:
            if member.is_started:
                member.kill()
        for member in self._members:
            member.let_go()
        self._members.clear()
        self._lifeline.close()
        if self._launcher is not None:
            self._launcher.close()
            self._launcher = None
            self.waiter.close()
        ask_again()


def _close(sock: socket.socket) -> None:
    disown(sock.fileno())
    sock.close()


def _end(process: Process) -> None:
    process.kill()
    see_off(process, DYING_SECONDS)


def brief(recipe: Recipe, inheritance: Inheritance | None) -> bytes:
    """Everything a worker is told first, as bytes; fails here, before anything is started."""
    try:
        pickled_recipe = dump_by_value(recipe) if inheritance is None else inheritance.dumps(recipe)
    except Exception as error:
        for row, env_fn in zip(recipe.rows, recipe.env_fns, strict=True):
            try:
                dump_by_value(env_fn)
            except Exception as cause:
                raise ConfigurationError(
                    f"the factory of environment {row} ({env_fn!r}) cannot be sent to a worker process: "
                    f"{type(cause).__name__}: {cause}. Create what it refers to inside the factory, "
                    'or use start_method="fork", which sends no factories, or backend="serial" or "threads".'
                ) from cause
        raise ConfigurationError(f"the environments cannot be sent to a worker process: {error}") from error
    briefing = Briefing(
        log_settings=LogSettings.of_this_process(),
        authkey=bytes(multiprocessing.current_process().authkey),
        pickled_recipe=pickled_recipe,
        registrations=own_registrations(),
    )
    return pickle.dumps(briefing, protocol=5)
