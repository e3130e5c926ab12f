"""Log records of a worker, handled by the caller's loggers.

A worker has one handler, which sends every record to the caller; there the logger of the same name handles it, with the
caller's levels, filters and handlers. The caller's levels are told to the worker when it starts, so that a record nobody
wants is not even made. A process that an environment forks logs to standard error instead.
"""

from __future__ import annotations

import logging
import logging.handlers
import pickle
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class LogSettings:
    """The levels that were set in the caller."""

    levels: dict[str, int]
    disabled_below: int

    @classmethod
    def of_this_process(cls) -> LogSettings:
        """Look at every logger that has a level of its own."""
        loggers = logging.root.manager.loggerDict.items()
        levels = {name: it.level for name, it in loggers if isinstance(it, logging.Logger) and it.level}
        return cls({"": logging.root.level, **levels}, logging.root.manager.disable)


class _Forwarder(logging.handlers.QueueHandler):
    """Prepares a record as for a queue (message formatted, exception as text) and hands over its bytes."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self._send = send

    def enqueue(self, record: logging.LogRecord) -> None:
        self._send(pickle.dumps(record.__dict__, protocol=5))


def forward_logs(settings: LogSettings, send: Callable[[bytes], None]) -> None:
    """Send this process's log records away, and nowhere else."""
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True
    logging.root.handlers[:] = [_Forwarder(send)]
    logging.disable(settings.disabled_below)
    for name, level in settings.levels.items():
        logging.getLogger(name or None).setLevel(level)


def log_here() -> None:
    """In a process that was forked from a worker: write log records to standard error. The socket is the worker's."""
    handlers = logging.root.handlers
    handlers[:] = [logging.StreamHandler() if isinstance(each, _Forwarder) else each for each in handlers]


def handle_record(data: memoryview) -> None:
    """In the caller: let the logger of the same name deal with a worker's record."""
    record = logging.makeLogRecord(pickle.loads(data))
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
