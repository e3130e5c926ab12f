"""A disk that fails at a chosen operation, or whose user is killed there."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHANGES = ("open", "write", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir", "ftruncate")
"""Whatever changes a disk, and the opening that comes before."""


class Killed(BaseException):
    """Stands for the end of the process: nobody can catch it, and nothing is done after it."""


class FailingDisk:
    """Counts operations; the one with number ``fail_at`` fails.

    A write that fails has written half of what it was given. If it is the process that is ``killed``, every operation
    after that one fails too, so that nobody can tidy up.
    """

    def __init__(self, fail_at: int, killed: bool = False) -> None:
        self._fail_at = fail_at
        self._killed = killed
        self.operations: list[str] = []
        self.has_failed = False

    @contextmanager
    def installed(self) -> Iterator[FailingDisk]:
        with pytest.MonkeyPatch.context() as patch:
            for name in CHANGES:
                patch.setattr(os, name, self._failing(name, getattr(os, name)))
            yield self

    def _failing(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **keywords: Any) -> Any:
            self.operations.append(name)
            if self._killed and self.has_failed:
                raise Killed
            if len(self.operations) == self._fail_at:
                self.has_failed = True
                if name == "write":
                    descriptor, data = arguments
                    real(descriptor, data[: len(data) // 2])
                raise Killed if self._killed else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **keywords)

        return operation


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """The kernel itself refuses files that are larger, after writing what still fits: the nearest to a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
