"""Workers that die at an exact moment: in the writing of their results, before, in and after their reply.

The workers are forks of this process, in which the moment has been prepared.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal import ParallelEnv
from shoal.vector import runner
from shoal.vector.backends.board import LETTERS_READ, Desk
from shoal.vector.backends.channel import WorkerChannel
from shoal.vector.backends.worker import Worker
from shoal.vector.messages import Op
from shoal.vector.observations import ObservationWriter
from shoal.vector.plain_steps import plain_steps_of
from shoal.vector.replays import IS_REPLAYING
from tests.comparing import difference
from tests.envs import WalkingEnv

FATAL_STEP = 5


class LoggingEnv(WalkingEnv):
    """Writes down how often it has really taken its fifth step, replays left out. Its info is a megabyte, or nothing."""

    def __init__(self, log: Path | None = None, wordy: bool = False) -> None:
        super().__init__()
        self.log, self.wordy, self.taken = log, wordy, 0

    def step(self, action: Any) -> Any:
        self.taken += 1
        if self.log is not None and self.taken == FATAL_STEP and not IS_REPLAYING.get():
            with self.log.open("a") as file:
                file.write("x")
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, {"log": bytes([self.taken]) * 2**20} if self.wordy else {}


class Moment:
    """Ends a worker once, in its fifth step."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker
        self.steps = 0
        self.parent = os.getpid()

    def counts(self) -> bool:
        self.steps += 1
        return self.steps == FATAL_STEP and os.getpid() != self.parent and not self.marker.exists()

    def strike(self) -> None:
        self.marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def before_the_reply(moment: Moment, patch: pytest.MonkeyPatch) -> None:
    reply = Worker._reply

    def patched(self: Any, sequence: int, kind: int, outcome: Any) -> None:
        if kind == Op.STEP and moment.counts():
            moment.strike()
        reply(self, sequence, kind, outcome)

    patch.setattr(Worker, "_reply", patched)


def after_the_reply(moment: Moment, patch: pytest.MonkeyPatch) -> None:
    reply = Worker._reply

    def patched(self: Any, sequence: int, kind: int, outcome: Any) -> None:
        strikes = kind == Op.STEP and moment.counts()
        reply(self, sequence, kind, outcome)
        if strikes:
            moment.strike()

    patch.setattr(Worker, "_reply", patched)


def in_the_reply(moment: Moment, patch: pytest.MonkeyPatch) -> None:
    """Half of it is sent, or lies in the mailbox."""
    reply, send, leave = Worker._reply, WorkerChannel.send, Desk.leave
    strikes = [False]

    def patched_reply(self: Any, sequence: int, kind: int, outcome: Any) -> None:
        strikes[0] = kind == Op.STEP and moment.counts()
        reply(self, sequence, kind, outcome)

    def patched_send(self: Any, *arguments: Any, **keywords: Any) -> None:
        if strikes[0]:
            whole, self.socket = self.socket, _HalfSocket(self.socket, moment)
            try:
                send(self, *arguments, **keywords)
            finally:
                self.socket = whole
        send(self, *arguments, **keywords)

    def patched_leave(self: Any, sequence: int, about: int, letter: bytes) -> bool:
        if strikes[0]:
            self._outbox.write(sequence, about, letter[: len(letter) // 2], self.words[LETTERS_READ])
            moment.strike()
        return leave(self, sequence, about, letter)

    patch.setattr(Worker, "_reply", patched_reply)
    patch.setattr(WorkerChannel, "send", patched_send)
    patch.setattr(Desk, "leave", patched_leave)


class _HalfSocket:
    def __init__(self, socket: Any, moment: Moment) -> None:
        self._socket, self._moment = socket, moment

    def sendall(self, data: Any) -> None:
        self._socket.sendall(data[: len(data) // 2])
        self._moment.strike()


def in_the_writing(moment: Moment, patch: pytest.MonkeyPatch) -> None:
    """The observations are spoilt."""
    init = ObservationWriter.__init__
    moment.steps = -1  # a reset is written too

    def patched(self: Any, layout: Any, arena: Any) -> None:
        init(self, layout, arena)
        really = self.write

        def write(row: int, observation: Any) -> None:
            if row == 0 and moment.counts():
                _spoil(arena.observations, moment)
            really(row, observation)

        self.write = write

    def patched_plain(its: Any, rows: Any, arena: Any, layout: Any, mode: Any) -> Any:
        really = plain_steps_of(its, rows, arena, layout, mode)

        def step(*arguments: Any) -> Any:
            results = really(*arguments)  # type: ignore[misc]
            if results is None and rows[0] == 0 and moment.counts():
                _spoil(arena.observations, moment)
            return results

        return None if really is None else step

    patch.setattr(ObservationWriter, "__init__", patched)
    patch.setattr(runner, "plain_steps_of", patched_plain)


def _spoil(arrays: Any, moment: Moment) -> None:
    for array in arrays:
        array[:] = 77
    moment.strike()


def run(log: Path | None, wordy: bool, steps: int = 12, **keywords: Any) -> tuple[list[Any], int]:
    fns: list[Any] = [lambda: LoggingEnv(log, wordy)] + [lambda: LoggingEnv(None, wordy)] * 3
    with ParallelEnv(fns, **keywords) as envs:
        results: list[Any] = [envs.reset(seed=3)]
        results += [envs.step([(number + row) % 3 for row in range(4)]) for number in range(steps)]
        return results, envs.stats.restarts


@pytest.mark.parametrize("wordy", [False, True], ids=["silent", "wordy"])
@pytest.mark.parametrize(
    ("moment", "executions"),
    [(before_the_reply, 2), (in_the_reply, 2), (after_the_reply, 1), (in_the_writing, 2)],
)
def test_nothing_is_lost_at_any_moment(
    process_backend: str,
    moment: Callable[[Moment, pytest.MonkeyPatch], None],
    executions: int,
    wordy: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if moment is in_the_reply and process_backend == "shm" and not wordy:
        pytest.skip("an ordinary step is no message")
    expected, _ = run(None, wordy, backend="serial")
    marker, log = tmp_path / "struck", tmp_path / "log"
    moment(Moment(marker), monkeypatch)
    found, restarts = run(log, wordy, backend=process_backend, num_workers=1, start_method="fork")
    assert marker.exists(), "it has happened"
    assert restarts == 1
    assert not difference(found, expected)
    assert log.read_text() == "x" * executions, "a step that was reported is not taken again"
