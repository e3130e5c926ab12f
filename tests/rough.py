"""Environments that do to their process what they should not. Module-level, so that every process can name them."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from typing import Any

from tests.envs import CountingEnv

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]

DAEMON = [
    sys.executable, "-S", "-c",
    "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(600)",
]  # fmt: skip
"""A program that lets go of who has started it, as daemons do."""


class BusyEnv(CountingEnv):
    """Has a helper process. Action 1 never returns from Python code, action 2 never from C code that holds the lock."""

    def __init__(self, helper: str = "plain") -> None:
        super().__init__(length=100)
        if helper == "daemon":
            subprocess.run(DAEMON, check=True)
        elif helper:
            self.helper = subprocess.Popen(SLEEP, start_new_session=helper == "session")

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        while action == 1:
            pass
        if action == 2:
            re.match("(a+)+$", "a" * 60 + "b")
        if action == 3:
            os.kill(os.getpid(), 11)
        return super().step(action)

    def helper_pid(self) -> int:
        return self.helper.pid


class SlowStartEnv(CountingEnv):
    """Takes for ever to be made."""

    def __init__(self) -> None:
        super().__init__()
        time.sleep(600)


class SessionEnv(BusyEnv):
    """Wants a session of its own, which a process that leads a group cannot have."""

    def __init__(self) -> None:
        super().__init__()
        with contextlib.suppress(PermissionError):
            os.setsid()


class WanderingEnv(BusyEnv):
    """Moves to another process group."""

    def __init__(self) -> None:
        super().__init__()
        guide = subprocess.Popen(SLEEP, process_group=0)
        os.setpgid(0, guide.pid)
        guide.kill()
        guide.wait()


class SleepingEnv(CountingEnv):
    """Sleeps in ``step`` as many seconds as the action says."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(float(action))
        return super().step(action)


class SlowEverywhereEnv(CountingEnv):
    """Takes for ever to be reset, and to be closed."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        time.sleep(600)
        return super().reset(seed=seed, options=options)

    def close(self) -> None:
        time.sleep(600)
