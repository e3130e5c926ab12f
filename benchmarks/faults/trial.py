"""One fault on one library, in a process of its own.

    import ── make, reset ── step … fault … step ──▶ all steps done ─────────────┐
                                       │                                         ├──▶ close ── exit
                                       └──▶ error ── reset, or the same step ────┘

Every result is held against the same rollout without a fault, which the same library gave before; a trial whose fault is none
records that rollout. What it finds goes into its diary; the judge, who started it, does the rest. Worker processes import this
module again, so nothing may be imported at its top but what they need anyway.
"""

from __future__ import annotations

import functools
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.faults.comparing import Comparison, Reference
from benchmarks.faults.diary import Diary, Stage
from benchmarks.faults.faults import (
    FAULT_ACTION,
    FAULT_ENV,
    FAULT_STEP,
    LARGEST_MEGABYTES,
    LIMIT_SECONDS,
    LONGEST,
    NUM_ENVS,
    SEED,
    STEPS_AFTERWARDS,
    Fault,
    fault_named,
)
from benchmarks.faults.faulty_env import HOSTS, FaultyEnv, fire
from benchmarks.faults.libraries import library_named
from benchmarks.faults.processes import alive, processes_of_trial
from benchmarks.faults.rigs.base import FaultRig, Limits

_SETTLING_SECONDS = 1.0
_LONGEST_MESSAGE = 300


def main(library: str, fault_name: str, folder: Path, reference: Path, mode: Literal["record", "compare"]) -> None:
    # Started in the background, this process would ignore Ctrl-C, and so would its workers.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    trial = Trial(fault_named(fault_name), folder)
    trial.diary.enter(Stage.IMPORTING)
    trial.rig = library_named(library).build()
    trial.diary.enter(Stage.STARTING)
    trial.open()
    if mode == "record":
        trial.record(reference)
    else:
        trial.reference = Reference.load(reference)
        trial.run()
    trial.close()


class Trial:
    """The caller of the library."""

    rig: FaultRig
    reference: Reference

    def __init__(self, fault: Fault, folder: Path) -> None:
        self._fault, self._folder = fault, folder
        self.diary = Diary(folder)

    def open(self) -> None:
        make_env = functools.partial(FaultyEnv, fault=self._fault, folder=str(self._folder))
        limits = Limits(
            step_seconds=LIMIT_SECONDS if self._fault.takes_for_ever else None,
            worker_megabytes=LARGEST_MEGABYTES if self._fault.leak else None,
        )
        self.rig.open(make_env, NUM_ENVS, limits)
        self._first = self.rig.reset(SEED)

    def record(self, path: Path) -> None:
        results = [self._first, *(self.rig.step(actions_of(step)) for step in range(LONGEST))]
        Reference(results).save(path)

    def run(self) -> None:
        """The rollout, and what a caller does about an error in it."""
        self._comparison = Comparison(self.reference)
        self._comparison.see(self._first)
        self.diary.enter(Stage.STEPPING)
        failed = self._attempt(self._roll_out)
        if failed and self._fault.origin != "parent":
            self.diary.enter(Stage.ANSWERING)
            self._attempt(self._roll_on if self._fault.answer == "again" else self._begin_again)

    def close(self) -> None:
        """Close, and count who is still there."""
        self.diary.enter(Stage.CLOSING)
        begin = time.monotonic()
        try:
            self.rig.close()
        except (Exception, KeyboardInterrupt) as error:
            self.diary.note(error=in_short(error))
        self.diary.note(seconds=round(time.monotonic() - begin, 2))
        time.sleep(_SETTLING_SECONDS)
        hosts = {int(line) for line in (self._folder / HOSTS).read_text().split()}
        left = [one for one in processes_of_trial(self._folder) if one.pid in hosts and one.pid != os.getpid()]
        self.diary.note(left=len(left))
        self.diary.enter(Stage.EXITING)

    def _attempt(self, action: Callable[[], None]) -> bool:
        """Returns whether there was an error."""
        begin = time.monotonic()
        try:
            action()
        except KeyboardInterrupt:
            self.diary.note(interrupted=True)
            return False
        except Exception as error:
            self.diary.note(error=in_short(error))
            return True
        finally:
            self.diary.note(
                seconds=round(time.monotonic() - begin, 2),
                differences=self._comparison.differences,
                megabytes=self._megabytes(),
            )
        return False

    def _roll_out(self) -> None:
        for step in range(self._fault.num_steps):
            actions = self._next_actions()
            if step == FAULT_STEP:
                if self._fault.name == "parent-idle":
                    fire(self._folder)
                    self.diary.enter(Stage.WAITING_TO_BE_KILLED)
                    time.sleep(3600)
                elif self._fault.origin == "outside":
                    self._strike(signal.SIGKILL if self._fault.name == "kill-idle" else signal.SIGSTOP)
                elif self._fault.origin == "caller":
                    fire(self._folder)
                    actions = actions[:-1]
            self._take_step(actions)

    def _roll_on(self) -> None:
        for _ in range(int(self._comparison.counts.max()), self._fault.num_steps + 1):
            self._take_step(self._next_actions())

    def _begin_again(self) -> None:
        self._comparison = Comparison(self.reference)
        self._comparison.see(self.rig.reset(SEED))
        for _ in range(STEPS_AFTERWARDS):
            self._take_step(self._next_actions())

    def _take_step(self, actions: NDArray[np.int64]) -> None:
        self._comparison.see(self.rig.step(actions))
        self.diary.note()

    def _next_actions(self) -> NDArray[np.int64]:
        """For each environment that of its own next step, which is not the same for all once one was left out."""
        steps = self._comparison.counts - 1  # the first result was that of the reset
        return np.array([actions_of(step)[env_id] for env_id, step in enumerate(steps.tolist())])

    def _strike(self, number: signal.Signals) -> None:
        pid = self.rig.worker_pid(FAULT_ENV)
        os.kill(pid, number)
        fire(self._folder)
        # Until it has taken effect; a signal is no synchronous thing.
        while number == signal.SIGKILL and alive(pid):
            time.sleep(0.01)

    def _megabytes(self) -> int:
        """How large the largest process with an environment is."""
        hosts = {int(line) for line in (self._folder / HOSTS).read_text().split()}
        sizes = [
            one.memory_info().rss
            for one in processes_of_trial(self._folder)
            if one.pid in hosts and one.pid != os.getpid()
        ]
        return round(max(sizes, default=0) / 1e6)


def actions_of(step: int) -> NDArray[np.int64]:
    """Always the same; only the environment that goes wrong is ever told to."""
    actions = (np.arange(NUM_ENVS, dtype=np.int64) * 3 + step * 7) % FAULT_ACTION
    if step == FAULT_STEP:
        actions[FAULT_ENV] = FAULT_ACTION
    return actions


def in_short(error: BaseException) -> str:
    """The type and the first line of the message, without what differs between runs."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return re.sub(r"\bpid \d+", "pid …", text)[:_LONGEST_MESSAGE]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5])  # type: ignore[arg-type]
