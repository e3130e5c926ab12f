"""Runs a trial, watches how far it comes, and leaves nothing of it behind.

judge ── starts ──▶ trial (its own session, log and folder) ──▶ its workers
  │                   │
  ├── reads ◀─ diary ─┘
  ├── presses Ctrl-C when a stage takes too long, as somebody at a terminal would
  └── counts and ends what is left
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

from benchmarks import peers_venv
from benchmarks.faults.diary import Reading, Stage
from benchmarks.faults.faults import Fault
from benchmarks.faults.faulty_env import FIRED
from benchmarks.faults.libraries import Library
from benchmarks.faults.processes import VARIABLE, end_trial, processes_of_trial
from benchmarks.faults.records import Record

PATIENCE = {
    Stage.IMPORTING: 120.0,
    Stage.STARTING: 180.0,
    Stage.STEPPING: 20.0,
    Stage.WAITING_TO_BE_KILLED: 30.0,
    Stage.ANSWERING: 20.0,
    Stage.CLOSING: 30.0,
    Stage.EXITING: 10.0,
}
"""Seconds without a sign of life, which every step gives, after which a stage is said to hang."""
_AFTER_INTERRUPT_SECONDS = 5.0
_AT_FIRST_SECONDS = 1.0
_IN_THE_END_SECONDS = 10.0
_LOOK_SECONDS = 0.02


class Judge:
    """Judges one library after the other; what they print goes to a folder of logs."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs.resolve()

    def record_reference(self, library: Library, nothing: Fault, path: Path) -> Record:
        """Let it write down the rollout in which nothing goes wrong."""
        return self._judge(library, nothing, path, "record")

    def try_out(self, library: Library, fault: Fault, reference: Path) -> Record:
        return self._judge(library, fault, reference, "compare")

    def _judge(self, library: Library, fault: Fault, reference: Path, mode: Literal["record", "compare"]) -> Record:
        log = self._logs / f"{library.name}-{fault.name}.log"
        # PufferLib leaves a link in the current folder when it is imported.
        with tempfile.TemporaryDirectory(prefix="faults-trial-") as name, log.open("wb") as output:
            folder = Path(name)
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.faults.trial", library.name, fault.name, name, str(reference), mode],
                cwd=folder,
                env=_variables(folder),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            record = Record(library.name, fault.name)
            try:
                if fault.origin == "parent":
                    _kill_the_parent(process, folder, fault, record)
                else:
                    _watch(process, folder, record)
                record.fired = (folder / FIRED).exists()
                record.take_in(Reading(folder))
            finally:
                end_trial(folder)
                process.wait()
        text = log.read_text(errors="replace")
        record.cause_in_log = bool(fault.cause) and fault.cause in text
        if record.problem is not None and (lines := text.strip().splitlines()):
            record.problem += f" ({lines[-1][:200]})"
        return record


def _variables(folder: Path) -> dict[str, str]:
    paths = [str(peers_venv.PROJECT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "OMP_NUM_THREADS": "1",
        VARIABLE: str(folder),
    }


def _watch(process: subprocess.Popen[bytes], folder: Path, record: Record) -> None:
    """Until it has ended, or hangs where Ctrl-C does not reach it."""
    last_sign, num_entries, interrupted = time.monotonic(), 0, False
    while process.poll() is None:
        time.sleep(_LOOK_SECONDS)
        reading = Reading(folder)
        stage = reading.stage
        if reading.num_entries != num_entries:
            last_sign, num_entries, interrupted = time.monotonic(), reading.num_entries, False
        allowed = PATIENCE[stage] + (_AFTER_INTERRUPT_SECONDS if interrupted else 0)
        if time.monotonic() - last_sign < allowed:
            continue
        record.hung.append(stage.value)
        if interrupted or stage not in (Stage.STEPPING, Stage.ANSWERING):
            return
        interrupted = True
        os.killpg(process.pid, signal.SIGINT)
    if Reading(folder).stage is not Stage.EXITING:
        record.problem = f"ended with code {process.returncode} while {Reading(folder).stage.value}"
    time.sleep(_AT_FIRST_SECONDS)
    record.left_after_exit = len(processes_of_trial(folder))


def _kill_the_parent(process: subprocess.Popen[bytes], folder: Path, fault: Fault, record: Record) -> None:
    """When its workers idle, or one of them is busy; then see who notices."""
    begin = time.monotonic()
    while not (folder / FIRED).exists():
        time.sleep(_LOOK_SECONDS)
        if process.poll() is not None or time.monotonic() - begin > PATIENCE[Stage.STARTING]:
            record.problem = f"did not come to the fault; it was {Reading(folder).stage.value}"
            return
    # So that the fault is really under way.
    time.sleep(0.3)
    record.processes = len(processes_of_trial(folder)) - 1
    process.kill()
    process.wait()
    killed = time.monotonic()
    time.sleep(_AT_FIRST_SECONDS)
    record.left_at_first = len(processes_of_trial(folder))
    while time.monotonic() - killed < _IN_THE_END_SECONDS and processes_of_trial(folder):
        time.sleep(_LOOK_SECONDS)
    record.left_in_the_end = len(processes_of_trial(folder))
