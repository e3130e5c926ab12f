"""Who takes part, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.training.task import Task

START_SECONDS, TURN_SECONDS = 180.0, 300.0
QUIET_SECONDS = 0.03
"""After a turn, until everybody's workers have gone to sleep."""


@dataclass(frozen=True)
class Contestant:
    """A training loop on some kind of environments, with so many threads of torch."""

    library: str
    kind: str
    threads: int | None = None
    """``None`` leaves it to the library."""

    @property
    def name(self) -> str:
        threads = {None: "", 1: ", 1 thread"}.get(self.threads, f", {self.threads} threads")
        return f"{self.library} {self.kind}{threads}"


SHOAL = Contestant("Shoal", "auto")
PEERS = tuple(
    Contestant(library, kind, threads)
    for library, kinds in (("Stable-Baselines3", ("dummy", "subproc")), ("single file", ("sync", "async")))
    for kind in kinds
    for threads in (None, 1)
)
BUSY_PEERS = tuple(peer for peer in PEERS if peer.threads == 1)
"""Beside busy processes, where threads of torch wait for the one whose core is taken: more than ten times as slow."""


class Trainer:
    """A contestant at one task, in a process of its own."""

    def __init__(self, contestant: Contestant, task: Task) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, contestant, task))
        self._process.start()
        theirs.close()
        self._steps = task.steps_per_turn
        self.told: dict[str, Any] = {}
        self._ask(START_SECONDS)

    def rate(self) -> float:
        """Steps per second of a turn."""
        self._connection.send("train")
        seconds, self.told = self._ask(TURN_SECONDS)
        time.sleep(QUIET_SECONDS)
        return self._steps / float(seconds)

    def _ask(self, patience: float) -> Any:
        if not self._connection.poll(patience):
            self.end()
            raise TimeoutError(f"no answer within {patience:.0f} s")
        answer = self._connection.recv()
        if isinstance(answer, Exception):
            self.end()
            raise answer
        return answer

    def end(self) -> None:
        """Its workers end with it."""
        try:
            self._connection.send(None)
        except OSError:
            pass
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(connection: Connection, contestant: Contestant, task: Task) -> None:
    try:
        train = _start(contestant, task)
        train(task.cell.rollouts)  # the first rollouts are slower for everybody
        connection.send((0.0, {}))
        while connection.recv() is not None:
            begin = time.perf_counter()
            told = train(task.cell.rollouts)
            connection.send((time.perf_counter() - begin, told))
    except Exception as error:
        connection.send(RuntimeError(f"{type(error).__name__}: {error}"))


def _start(contestant: Contestant, task: Task) -> Any:
    import torch

    if contestant.threads is not None:
        torch.set_num_threads(contestant.threads)
    if contestant.library == "Shoal":
        from benchmarks.training.loops import shoal_loop

        return shoal_loop.start(task)
    if contestant.library == "Stable-Baselines3":
        from benchmarks.training.loops import sb3_loop

        return sb3_loop.start(task, contestant.kind)
    from benchmarks.training.loops import single_file_loop

    return single_file_loop.start(task, contestant.kind)
