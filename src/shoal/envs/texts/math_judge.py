"""Answers compared by ``math-verify``, in a process of its own that can be ended: formulas may take forever.

::

    envs of this process ── a line: [answer, gold, seconds] ──▶ python -m shoal.envs.texts.math_judge
                         ◀── a line: true, false or why not ──┘

The system itself ends the process when a comparison takes longer than it may, also if nobody is left to do so. The next
comparison starts another.

Answers are read as LaTeX alone: what math-verify reads as Python's arithmetic, it hands to ``eval``. Besides, the process
refuses to start, write or connect to anything.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import weakref
from importlib.util import find_spec
from typing import Any

from shoal.vector.errors import ConfigurationError

MOST_MEMORY = 2**30
"""Bytes of data that the process may have."""
LONGEST_FORMULA = 2_000
"""Characters."""

_shared: weakref.WeakValueDictionary[int, MathJudge] = weakref.WeakValueDictionary()


class MathJudge:
    """Compares answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    @staticmethod
    def shared() -> MathJudge:
        """That of this process, as long as somebody has it."""
        if find_spec("math_verify") is None:
            raise ConfigurationError(
                "compare=(…, \"math\") needs math-verify, which is not installed: pip install 'shoal[text]'"
            )
        judge = _shared.get(os.getpid())
        if judge is None:
            judge = _shared[os.getpid()] = MathJudge()
        return judge

    def same(self, answer: str, gold: str, seconds: float) -> bool | str:
        """Whether both mean the same; a text says why that could not be found out."""
        if len(answer) > LONGEST_FORMULA:
            return f"it has {len(answer)} characters, and may have {LONGEST_FORMULA}"
        with self._lock:
            process = self._started()
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps([answer, gold, seconds]) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:  # it has ended before it could read
                line = ""
            except BaseException:  # Ctrl-C, for example: whatever it answers later must not be taken for another answer
                self._end()
                raise
            if line:
                verdict: bool | str = json.loads(line)
                return verdict
            self._end()
            return f"it took longer than {seconds:g} s, or ended the process that compares"

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            command = [sys.executable, "-m", __name__]
            environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environ,
            )
            assert self._process.stdout is not None
            if not self._process.stdout.readline():  # it says when it has imported what it needs: that takes its time
                self._end()
                raise ConfigurationError(
                    'compare=(…, "math"): math-verify cannot be used. Its parser needs a matching runtime: '
                    "pip install 'math-verify[antlr4_13_2]'"
                )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    try:
                        stream.close()
                    except OSError:
                        pass  # what was not sent is not needed

    def __del__(self) -> None:
        self._end()


def _judged(answer: str, gold: str) -> bool | str:
    from math_verify import LatexExtractionConfig, parse, verify

    try:
        # Their own limits of time work in some threads only, and not in native code.
        parsed = [parse(_as_formula(text), [LatexExtractionConfig()], parsing_timeout=None) for text in (gold, answer)]
        return bool(parsed[0]) and bool(parsed[1]) and bool(verify(*parsed, timeout_seconds=None))
    except MemoryError:
        return "it took too much memory"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]


def _as_formula(text: str) -> str:
    return text if "$" in text or "\\boxed" in text else f"${text}$"


def _serve() -> None:
    import resource
    import signal

    import math_verify  # noqa: F401  before limits are set

    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the system ends this process, whatever it is doing
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _judged("1", "1")
    sys.addaudithook(_refuse)
    _say("ready")
    for line in sys.stdin:
        answer, gold, seconds = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        verdict = _judged(answer, gold)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        _say(verdict)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Called by Python before it does anything that concerns the world outside. To import something is allowed."""
    writes = event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes or (event.startswith(_REFUSED) and event not in ("os.listdir", "os.scandir")):
        raise PermissionError(f"{event} is not for those who compare answers")


_REFUSED = ("os.", "subprocess.", "socket.", "ctypes.", "shutil.", "pty.")


def _say(value: Any) -> None:
    sys.__stdout__.write(json.dumps(value) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


if __name__ == "__main__":
    _serve()
