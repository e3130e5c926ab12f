"""The numbers of a run, one line after every update; and the rule that writing them never ends a training.

    write() ──▶ metrics.jsonl         always; what the disk refuses is kept in memory and written as soon as it can be
            ──▶ TensorBoard, W&B      if wanted; the first failure of one is reported, and it is left alone from then on

What is wrong with the arguments themselves is a mistake in the program, and raises.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from shoal.runs.durable import reason_of
from shoal.runs.event_writers import EventWriter, TensorBoardWriter, WandbWriter
from shoal.runs.folder import METRICS
from shoal.runs.installed import is_installed
from shoal.runs.json_lines import append_lines, cut_before, read_lines
from shoal.vector.errors import ConfigurationError, StateError

MOST_WAITING_LINES = 100_000
"""Lines that are kept for a disk that is full: some 60 MB of memory."""


LINES_AT_ONCE = 1000
"""So that a disk that stays full costs little each time."""


class MetricsLog:
    """Writes the metrics of a run into its folder. Close it, or use it in a ``with`` block.

    Args:
        folder: that of the run.
        tensorboard: whether to write event files too; ``"auto"`` does if the package is installed.
        wandb: whether to log to Weights & Biases too.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        tensorboard: bool | Literal["auto"] = "auto",
        wandb: bool = False,
    ) -> None:
        if tensorboard not in (True, False, "auto"):
            raise ConfigurationError(f'tensorboard must be True, False or "auto", got {tensorboard!r}')
        path = Path(folder)
        self._path = path / METRICS
        self._waiting: deque[tuple[int, str]] = deque(maxlen=MOST_WAITING_LINES)
        self._is_refused = False
        self._writers: list[EventWriter] = []
        if tensorboard is True or (tensorboard == "auto" and is_installed("tensorboard") and is_installed("torch")):
            self._writers.append(TensorBoardWriter(path))
        if wandb:
            self._writers.append(WandbWriter(path))

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add what is known at this step. What is not a finite number is written as ``null``."""
        numbers = {_name(name): _number(name, value) for name, value in values.items()}
        line = {"step": int(step), **{name: value if math.isfinite(value) else None for name, value in numbers.items()}}
        self._waiting.append((int(step), json.dumps(line, allow_nan=False)))
        self._write_waiting()
        self._tell_writers(lambda writer: writer.write(int(step), numbers))

    def _write_waiting(self) -> None:
        try:
            while self._waiting:
                lines = list(itertools.islice(self._waiting, LINES_AT_ONCE))
                append_lines(self._path, "".join(f"{line}\n" for _, line in lines).encode())
                for _ in lines:
                    self._waiting.popleft()
        except OSError as error:
            if not self._is_refused:
                self._is_refused = True
                _warn(
                    f"metrics cannot be written to {self._path}: {reason_of(error)}. Training goes on. The last "
                    f"{MOST_WAITING_LINES:,} lines are kept in memory and written once that is possible; they are lost if "
                    "the run ends before. What to do: make room on the disk."
                )
        else:
            self._is_refused = False

    def _tell_writers(self, tell: Callable[[EventWriter], None]) -> None:
        for writer in tuple(self._writers):
            try:
                tell(writer)
            except Exception as error:
                self._writers.remove(writer)
                _close_quietly(writer)
                _warn(
                    f"nothing more is written to {writer.name}: {type(error).__name__}: {error}. "
                    f"Training goes on, and metrics still go to {self._path}."
                )

    def resume_at(self, step: int) -> None:
        """Go on from a checkpoint that was saved at this step: what was written after it will be written again."""
        self._waiting = deque((line for line in self._waiting if line[0] <= step), maxlen=MOST_WAITING_LINES)
        try:
            cut_before(self._path, lambda line: _is_after(line, step))
        except FileNotFoundError:
            pass  # nothing was written before the checkpoint, nor after it
        except OSError as error:
            _warn(
                f"{self._path} cannot be shortened to step {step:,}: {reason_of(error)}. "
                "Training goes on, and later steps that are in it already will be in it twice.",
                stacklevel=3,
            )
        self._tell_writers(lambda writer: writer.resume_at(step))

    def close(self) -> None:
        """Write what is left. Says what is lost if that is still not possible."""
        self._write_waiting()
        if self._waiting:
            lost, first = len(self._waiting), self._waiting[0][0]
            self._waiting.clear()
            message = f"{lost:,} lines of metrics, from step {first:,} on, are lost: {self._path} could not be written"
            _warn(message, stacklevel=3)
        self._tell_writers(lambda writer: writer.close())

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """All lines of a ``metrics.jsonl``, or of that in the folder of a run. An unfinished last line is left out."""
    file = Path(path, METRICS) if os.path.isdir(path) else Path(path)
    lines: list[dict[str, Any]] = []
    try:
        for number, line in read_lines(file):
            if line is None:
                raise StateError(
                    f"line {number} of {file} is no JSON object: the file was changed after it was written"
                )
            lines.append(line)
    except FileNotFoundError:
        raise StateError(f"there are no metrics at {file}: nothing was written there") from None
    except OSError as error:
        raise StateError(f"{file} cannot be read: {reason_of(error)}") from error
    return lines


def _name(name: str) -> str:
    if not isinstance(name, str) or name == "step":
        raise ConfigurationError(f'a metric is named by a string other than "step", got {name!r}')
    return name


def _number(name: str, value: Any) -> float:
    if type(value) is int:
        return value
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):  # the last is what a tensor of several numbers raises
        raise ConfigurationError(f"the metric {name!r} must be a number, got {value!r}") from None


def _is_after(line: dict[str, Any], step: int) -> bool:
    its = line.get("step")
    return isinstance(its, int) and its > step


def _close_quietly(writer: EventWriter) -> None:
    """So that no thread of a broken writer is left; that it is broken has been said."""
    try:
        writer.close()
    except Exception:
        pass


def _warn(message: str, stacklevel: int = 4) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=stacklevel)
