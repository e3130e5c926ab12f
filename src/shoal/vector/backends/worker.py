"""A worker process: a runner at the end of a socket.

::

    caller                                worker process
    ──────                                ──────────────
    Channel ◀──── socketpair ────▶ WorkerChannel ── Runner ── environments
       │                                                │
       └───────────── arena (shm only) ─────────────────┘
    Board ◀── orders, what is done, what is worked on ──▶ Desk

It receives one command at a time, runs it and replies. When the socket closes, it closes its environments and ends.
"""

from __future__ import annotations

import errno
import io
import logging
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NoReturn

from shoal.vector.backends.board import Desk, Order
from shoal.vector.backends.channel import ARRIVAL, FORM, LOG, MAX_PICKLED, REPLY, RING, Frame, WorkerChannel
from shoal.vector.backends.descendants import COOKIE, descendants_of, end_all
from shoal.vector.backends.fork_guard import own
from shoal.vector.backends.inherited import loads
from shoal.vector.backends.last_words import leave_in
from shoal.vector.backends.lifeline import end_together, hold_on, is_broken
from shoal.vector.backends.limits import volunteer_for_oom, wake_promptly
from shoal.vector.backends.mailboxes import encoded
from shoal.vector.backends.remote_log import LogSettings, forward_logs, log_here
from shoal.vector.backends.shared_buffer import map_shared
from shoal.vector.errors import ConfigurationError
from shoal.vector.failures import Failure
from shoal.vector.forked import end_if_forked
from shoal.vector.halves import ALL, NUM_HALVES
from shoal.vector.info_forms import Form, columns_of, drawn_up, room_of
from shoal.vector.infos import Columns, by_environment
from shoal.vector.layout import Arena, Rows, pack, private_arena, unpack
from shoal.vector.loose import singly
from shoal.vector.messages import (
    EACH,
    NOTHING,
    STEP,
    Attachment,
    Command,
    Op,
    Outcome,
    Recipe,
    Steps,
    apart,
    is_together,
    one_by_one,
)
from shoal.vector.observations import NOT_SENT, Unsendable
from shoal.vector.pickling import dump_spaces, dumps, why_unsendable
from shoal.vector.registrations import register_here
from shoal.vector.runner import Runner

logger = logging.getLogger(__name__)

FORMS = 8  # that may be drawn up in any case; more only where that has been worth it

HUNG_UP = 97
"""The exit code of a worker whose socket was closed by an environment."""

OWN_ALARMS = {signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF}
"""Which nobody gets who has not asked for them."""

HERE: Worker | None = None
"""The worker that this process is."""


@dataclass(frozen=True)
class Post:
    """Where a worker sits: the descriptors it inherits and its number."""

    worker: int
    first_row: int
    generation: int
    channel_fd: int
    board_fd: int
    lifeline_fd: int
    words_fd: int
    """Where its last words go."""
    arena_fd: int
    """-1 where the arena is not shared."""
    uses_board: bool
    """Whether ordinary steps are ordered on the board."""
    num_mailboxes: int
    """How many lie behind the board."""
    processor: int
    """The one to run on while nobody else wants it, or -1 for any."""

    def descriptors(self) -> dict[str, int]:
        """What it inherits, by name."""
        named = {name: value for name, value in asdict(self).items() if name.endswith("_fd")}
        return {name: fd for name, fd in named.items() if fd >= 0}


@dataclass(frozen=True)
class Briefing:
    """What the caller tells a worker first."""

    log_settings: LogSettings
    authkey: bytes
    """What lets this process talk to the caller's :mod:`multiprocessing` managers."""
    pickled_recipe: bytes
    """A :class:`Recipe`, for :func:`~shoal.vector.backends.inherited.loads`. Pickled by itself, because reading it runs code of
    the environments'."""
    registrations: bytes
    """Environments registered with Gymnasium in the caller, which this process may not know of."""


def serve(post: Post) -> NoReturn:
    """The whole life of a worker process."""
    global HERE
    exit_code, home = 1, os.getpid()
    try:
        _settle_in(post)
        desk = Desk(post.board_fd, post.worker, post.processor, post.num_mailboxes)
        channel = WorkerChannel(socket.socket(fileno=post.channel_fd), desk, uses_board=post.uses_board)
        HERE = Worker(post, channel, desk)
        HERE.run()
        exit_code = 0
    except (BrokenPipeError, ConnectionResetError):
        pass  # the caller is gone
    except BaseException as error:
        end_if_forked(home)
        if isinstance(error, OSError) and error.errno in (errno.EBADF, errno.ENOTSOCK):
            exit_code = HUNG_UP
        else:
            traceback.print_exc()  # a fault of ours; the caller learns that this process has ended
    finally:
        end_if_forked(home)
        _leave(post, exit_code)


def _settle_in(post: Post) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to judge
    hold_on(post.lifeline_fd)
    # What a forked worker has of the caller's, and what the caller may have blocked, is not for this process.
    for number in signal.valid_signals() - OWN_ALARMS:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # A terminal may be set to stop who prints to it from another process group.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.environ[COOKIE] = str(os.getpid())
    volunteer_for_oom()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - what a forked worker has may hold what the caller has read
    # What an environment prints should be seen when it prints it, and not be lost if its process is killed.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    leave_in(post.words_fd)


def _leave(post: Post, exit_code: int) -> NoReturn:
    """End, whatever environments have done to this process, and leave nothing that they have started."""
    try:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        pass  # an environment has closed them, or they were never there
    end_all(descendants_of(os.getpid()))
    if is_broken(post.lifeline_fd):
        end_together(os.getpid())  # nobody else will end the rest of the group
    # Threads that an environment left behind must not keep the process.
    os._exit(exit_code)


class Worker:
    """Receives commands, has the runner run them, and replies."""

    def __init__(self, post: Post, channel: WorkerChannel, desk: Desk) -> None:
        self._post = post
        self._channel = channel
        self._desk = desk
        self._has_logged = False
        self._reporting = threading.RLock()
        self._num_under_way = 0
        """How many environments are at work on threads of their own."""
        self.runner: Runner
        """What has the environments."""
        self._arena: Arena
        self._forms: dict[int, Form] = {}
        """What environments tell in every step, all or those of a half, as the caller knows it too."""
        self._forms_drawn_up = self._forms_filled_in = 0
        self._concerned: Rows
        """The environments of the command that is being carried out."""
        own(post.channel_fd)
        own(post.words_fd)
        os.register_at_fork(after_in_child=self._retire_copy)

    def _retire_copy(self) -> None:
        """In a process that an environment has forked: keep nothing by which it could be taken for the worker.

        If it comes back from the environment's code, the next look at the desk raises, and it ends before another environment
        is called.
        """
        self._desk.take_away()
        self._reporting = threading.RLock()  # a thread that is not in this process may have it
        log_here()

    def run(self) -> None:
        """Until the caller closes the socket or says so."""
        frame: Frame | Order | None = self._channel.receive_first()
        while frame is not None:
            if not isinstance(frame, Frame):
                self._carry_out_order(*frame)
            elif frame.kind == Op.CLOSE:
                break
            elif frame.kind == Op.PREPARE:
                self._prepare(frame)
            elif frame.kind == Op.TAKE_PLACE:
                self._take_place(frame)
            elif frame.kind in EACH:
                self._carry_out_each(frame)
            else:
                self._reply(frame.sequence, frame.kind, self._carry_out(frame))
            # Who looks around keeps the interpreter to itself, which threads at work need more.
            frame = self._channel.receive(patiently=not self._num_under_way)
        if hasattr(self, "runner"):
            self.runner.slice.close()

    def _prepare(self, frame: Frame) -> None:
        """Import what a worker imports, ahead of time. If that fails it will fail again, and be reported then."""
        try:
            briefing: Briefing = pickle.loads(frame.pickled)
            register_here(briefing.registrations)
            loads(briefing.pickled_recipe)
        except BaseException:
            logger.debug("a spare worker could not prepare itself", exc_info=True)

    def _take_place(self, frame: Frame) -> None:
        """Sit down where another worker has been. The caller has cleared its desk."""
        fields: dict[str, Any] = pickle.loads(frame.pickled)
        self._post = replace(self._post, **fields)
        post = self._post
        self._desk = Desk(post.board_fd, post.worker, post.processor, post.num_mailboxes)
        self._channel.move_to(self._desk)

    def _carry_out_order(self, sequence: int, half: int) -> None:
        """Take a step that was ordered on the board."""
        written = self._desk.order(sequence) if half == ALL else None
        if written is None:
            outcome = self.runner.step_share(half, sequence)
        else:
            outcome = self.runner.execute(Command(sequence, STEP, pickle.loads(written)))
        if half == ALL:
            self._reply(sequence, STEP, outcome)
            return
        share = self.runner.share(half)
        is_plain = outcome is NOTHING or not any(outcome)
        is_told = is_plain or (not self._has_logged and self._tells(half, sequence, share.rows, outcome))
        if self._has_logged or not is_told:
            self._announce_all(share.rows, sequence, outcome)
            return
        with self._reporting:
            self._arena.tickets[share.where] = sequence
            if self._desk.half_done(half, sequence, len(share.rows)):
                self._channel.send(self._post.generation, sequence, RING)

    def _carry_out(self, frame: Frame) -> Outcome:
        op = Op(frame.kind)
        if op is Op.CONSTRUCT:
            return self._construct(frame)
        payload: Any = pickle.loads(frame.pickled) if frame.pickled else None
        if op is Op.ATTACH:
            self._attach(payload)
            return Outcome.empty()
        if op is Op.STEP and frame.raw:
            steps = payload or Steps(self.runner.rows, [], ())
            unpack(self._arena.given_actions(steps.wide), steps.rows, frame.raw)
        command = Command(frame.sequence, op, payload)
        if op in (Op.RESET, Op.STEP):
            self._concerned = command.rows(self.runner.rows)
        return self.runner.execute(command)

    def _carry_out_each(self, frame: Frame) -> None:
        payload: Any = pickle.loads(frame.pickled)
        if isinstance(payload, Steps) and frame.raw:
            unpack(self._arena.given_actions(payload.wide), payload.rows, frame.raw)
        whole = Command(frame.sequence, Op(frame.kind), payload)
        if is_together(whole):
            outcome = self.runner.execute(Command(frame.sequence, Op.STEP, payload))
            self._announce_all(payload.rows, frame.sequence, outcome)
            return
        caution = payload.caution if isinstance(payload, Steps) else None
        overlaps = self.runner.slice.overlaps and caution is None
        for row, command in one_by_one(whole):
            if overlaps:
                with self._reporting:
                    self._num_under_way += 1
                self.runner.start_alone(row, command, partial(self._report, row, frame.sequence))
            else:
                with self.runner.watching([row], caution):
                    outcome = self.runner.execute(command)
                with self._reporting:
                    self._announce(row, frame.sequence, outcome)

    def _report(self, row: int, sequence: int, outcome: Outcome) -> None:
        """Announce one environment from its own thread."""
        with self._reporting:
            self._num_under_way -= 1
            self._announce(row, sequence, outcome)

    def _announce_all(self, rows: Rows, sequence: int, outcome: Outcome) -> None:
        """Say that several environments are done."""
        with self._reporting:
            if any(outcome) or not self._post.uses_board or self._has_logged:
                for row, its in apart(outcome, rows).items():
                    self._announce(row, sequence, its)
                return
            self._arena.tickets[rows] = sequence
            if self._desk.arrived(len(rows)):
                self._channel.send(self._post.generation, sequence, RING)

    def _announce(self, row: int, sequence: int, outcome: Outcome) -> None:
        """Say that one environment is done."""
        is_plain = not any(outcome)
        if is_plain and self._post.uses_board and not self._has_logged:
            self._arena.tickets[row] = sequence
            if self._desk.arrived():
                self._channel.send(self._post.generation, sequence, RING)
            return
        if self._post.uses_board and not self._has_logged and self._leaves(row, sequence, outcome):
            if self._desk.arrived():
                self._channel.send(self._post.generation, sequence, RING)
            return
        self._has_logged = False
        self._desk.arrived()  # the message itself will wake
        pickled = b"" if is_plain else self._pickled(outcome, "step")
        raw = pack(self._arena.shipped, range(row, row + 1)) if self._post.arena_fd < 0 else None
        self._channel.send(self._post.generation, sequence, ARRIVAL, pickled, raw, place=row)

    def _construct(self, frame: Frame) -> Outcome:
        try:
            briefing: Briefing = pickle.loads(frame.pickled)
            forward_logs(briefing.log_settings, self._send_log)
            multiprocessing.current_process().authkey = briefing.authkey
            register_here(briefing.registrations)
            recipe: Recipe = loads(briefing.pickled_recipe)
        except BaseException as error:
            # Unpickling imports the user's modules, so anything can be raised here.
            return Outcome([], [], [Failure.of(error, env_index=self._post.first_row, phase="construct")], [])
        if recipe.num_threads > 1:
            wake_promptly()
        logger.debug("worker %d (pid %d) makes environments %s", self._post.worker, os.getpid(), recipe.rows)
        self.runner = Runner(recipe, self._desk.progress, in_process=False)
        return self.runner.execute(Command(frame.sequence, Op.CONSTRUCT))

    def _attach(self, attachment: Attachment) -> None:
        if self._post.arena_fd >= 0:
            self._arena = Arena(attachment.layout, map_shared(self._post.arena_fd))
        else:
            attachment = replace(attachment, num_slots=1)  # what was sent away need not be kept
            self._arena = private_arena(attachment.layout)
        self._forms.clear()
        self.runner.attach(attachment, self._arena)

    def _reply(self, sequence: int, kind: int, outcome: Outcome) -> None:
        is_plain = outcome is NOTHING or not any(outcome)
        if (
            self._post.uses_board
            and not self._has_logged
            and (is_plain or (kind == STEP and self._tells(ALL, sequence, self.runner.rows, outcome)))
        ):
            if self._desk.done(sequence):
                self._channel.send(self._post.generation, sequence, RING)
            return
        self._has_logged = False  # log records are on the socket, before this reply
        pickled = b"" if is_plain else self._pickled(outcome, Op(kind).label)
        raw = None
        if self._post.arena_fd < 0 and kind in (Op.RESET, Op.STEP):
            # Not those of the others: a worker that has taken another's place does not know them.
            raw = pack(self._arena.shipped, self._concerned)
        self._channel.send(self._post.generation, sequence, REPLY, pickled, raw)

    def _tells(self, half: int, sequence: int, rows: Rows, outcome: Outcome) -> bool:
        """Whether what environments tell about a step is where the caller finds it without a message."""
        drawn_up = self._forms_drawn_up
        if self._fills_in(half, sequence, rows, outcome):
            return True
        # A new form is announced in a message, which has to be read before the form is: so this goes as a message, too.
        return self._forms_drawn_up == drawn_up and self._leaves(half - NUM_HALVES, sequence, outcome)

    def _leaves(self, about: int, sequence: int, outcome: Outcome) -> bool:
        """Whether that is in a letter now, about one environment or, as a negative number, about all or one half."""
        if outcome.failures or outcome.values:
            return False
        try:
            letter = encoded(outcome)
        except Exception:
            return False  # who sends it as a message finds out whose value it is
        with self._reporting:
            return len(letter) <= MAX_PICKLED and self._desk.leave(sequence, about, letter)

    def _fills_in(self, half: int, sequence: int, rows: Rows, outcome: Outcome) -> bool:
        """Whether what environments tell about a step is written down where the caller finds it."""
        columns = columns_of(outcome, rows)
        if columns is None:
            return False
        form = self._forms.get(half)
        if form is not None and form.fill_in(columns):
            self._desk.told(half, sequence, form.number)
            self._forms_filled_in += 1
            return True
        # What is another thing every time is not worth a form.
        if self._forms_drawn_up <= FORMS + self._forms_filled_in // FORMS:
            self._draw_up(half, sequence, columns)
        return False

    def _draw_up(self, half: int, sequence: int, columns: Columns) -> None:
        """Have a form for what will follow these columns, and let the caller have the same."""
        form = drawn_up(columns, sequence, room_of(self._arena.sheet, self.runner.rows, half))
        if form is not None:
            self._forms[half] = form
            self._forms_drawn_up += 1
            self._channel.send(self._post.generation, sequence, FORM, dumps(columns), place=half - ALL)

    def _pickled(self, outcome: Outcome, phase: str) -> bytes:
        try:
            has_spaces = phase == Op.CONSTRUCT.label
            data = dump_spaces(outcome) if has_spaces else dumps(outcome)
            if len(data) <= MAX_PICKLED:
                return data
            if has_spaces:
                return dumps(_without_spaces(outcome, len(data)))
            too_large = len(data) - MAX_PICKLED
        except Exception:
            too_large = 0
        return dumps(self._without_unsendable(outcome, phase, too_large))

    def _without_unsendable(self, outcome: Outcome, phase: str, too_large: int) -> Outcome:
        """The outcome with whatever cannot be sent turned into failures that name it.

        If it is too large, by so many bytes, these are the largest values, so many that the rest can be sent.
        """
        failures = list(outcome.failures)
        infos, loose, values = [*by_environment(outcome.infos).items()], [*singly(outcome.loose)], outcome.values
        told = [("its info", *entry) for entry in infos]
        told += [("its observation", row, value) for row, _, value in loose]
        told += [("its result", *entry) for entry in values]
        reasons = [why_unsendable(value) for _, _, value in told]
        if too_large > 0:
            sizes = [0 if reason else len(dumps(value)) for reason, (_, _, value) in zip(reasons, told, strict=True)]
            for place in sorted(range(len(told)), key=sizes.__getitem__, reverse=True):
                if too_large <= 0:
                    break
                too_large -= sizes[place]
                reasons[place] = _too_large(sizes[place])
        for reason, (what, row, _) in zip(reasons, told, strict=True):
            if reason:
                error = Unsendable(f"{what} cannot be sent to the caller's process: {reason}\n  {NOT_SENT}")
                failures.append(self.runner.slice.failure_of(error, row, phase))
        good = iter([not reason for reason in reasons])
        return Outcome(
            infos=[entry for entry in infos if next(good)],
            loose=[entry for entry in loose if next(good)],
            values=[entry for entry in values if next(good)],
            failures=failures,
        )

    def _send_log(self, record: bytes) -> None:
        self._has_logged = True
        self._channel.send(self._post.generation, 0, LOG, record)


def _too_large(nbytes: int) -> str:
    return (
        f"it is {nbytes:,} bytes large, and a message may have {MAX_PICKLED:,}, for all environments of a worker. "
        'What to do: return less in one step, use more workers (num_workers=), or backend="serial" or "threads"'
    )


def _without_spaces(outcome: Outcome, nbytes: int) -> Outcome:
    """A failure that names the largest space, instead of censuses that take too many bytes."""
    sizes = [
        (len(dump_spaces(space)), row, name, space)
        for row, census in outcome.values
        for name, space in (("observation", census.observation_space), ("action", census.action_space))
    ]
    largest, row, name, space = max(sizes, key=lambda size: size[0])
    error = ConfigurationError(
        f"the spaces of this worker's environments take {nbytes:,} bytes in a message, and a message may have "
        f"{MAX_PICKLED:,}. The largest is the {name} space of environment {row}, of shape {space.shape}, with {largest:,} "
        "bytes: its bounds are not the same for every element. What to do: give it bounds that are, such as "
        'Box(low=0, high=255, shape=...), use more workers, or use backend="serial" or "threads".'
    )
    return Outcome([], [], [Failure.of(error, env_index=row, phase="construct")], [])
