"""Programs whose every process can be found, whoever its parent is now."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from tests.scripts import ROOT

MARK = "SHOAL_TEST_MARK"


class MarkedProgram:
    """A program in a process of its own. All that it starts inherits a mark in its environment variables."""

    def __init__(self, code: str, arguments: Sequence[str] = (), **variables: str) -> None:
        self._mark = f"{MARK}={uuid.uuid4().hex}"
        name, _, value = self._mark.partition("=")
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", name: value, **variables},
        )  # fmt: skip

    def expect(self, line: str) -> None:
        """Wait until it prints this line."""
        assert self.process.stdout is not None
        printed = self.process.stdout.readline()
        assert printed == f"{line}\n", f"{printed!r}, {'' if printed else self.process.communicate()[1]}"

    def others(self) -> dict[int, str]:
        """Every living process that it, or its descendants, have started, with its command."""
        return {pid: command for pid, command in self._marked() if pid != self.process.pid}

    def _marked(self) -> Iterator[tuple[int, str]]:
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                if self._mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name), (folder / "cmdline").read_bytes()[:200].decode(errors="replace")
            except OSError:
                continue  # gone, or not ours

    def wait_until_alone(self, seconds: float) -> float:
        """Until nothing of it is left, itself aside; returns how long that took."""
        begin = time.monotonic()
        while left := self.others():
            waited = time.monotonic() - begin
            assert waited < seconds, f"after {waited:.1f} s these are still there: {left}"
            time.sleep(0.005)
        return time.monotonic() - begin

    def press_ctrl_c(self) -> None:
        """As a terminal does: to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> tuple[int, str, str]:
        """Wait for its end; returns the exit code and what it has printed since."""
        output, errors = self.process.communicate(timeout=30)
        return self.process.returncode, output, errors

    def __enter__(self) -> MarkedProgram:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        for pid in self.others():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        self.process.communicate()
