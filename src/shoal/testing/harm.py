"""What faults do: to the process, or to a result."""

from __future__ import annotations

import copy
import ctypes
import os
import re
import resource
import signal
import time
from typing import Any, NoReturn

import numpy as np

from shoal.testing.faults import Fault


def harm(fault: Fault) -> None:
    """Let a fault happen that does not need a result."""
    match fault.kind:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            _leave_no_core()
            ctypes.string_at(0)
        case "abort":
            _leave_no_core()
            os.abort()
        case "exit":
            os._exit(fault.code or 0)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "hang":
            _sleep_for_ever()
        case "hang with GIL":
            # Finding out that this does not match takes 2**200 attempts, all of them in C.
            re.match(r"(a+)+$", "a" * 200 + "b")
        case "slow":
            time.sleep(fault.seconds or 0.0)
        case "raise":
            raise _error_of(fault)


def spoiled(fault: Fault, result: tuple[Any, ...]) -> tuple[Any, ...]:
    """The result of a step or a reset as this fault makes it."""
    observation, *rest, info = result
    match fault.kind:
        case "wrong shape":
            observation = misshapen(observation)
        case "nan reward":
            rest[0] = float("nan")
        case "large info":
            info = {**info, "large_info": bytes(fault.nbytes or 0)}
    return observation, *rest, info


def misshapen(observation: Any) -> Any:
    """Two of it instead of one; of a dictionary's entries, the first."""
    if isinstance(observation, dict) and observation:
        name = next(iter(observation))
        return {**observation, name: misshapen(observation[name])}
    if isinstance(observation, np.ndarray | np.generic | int | float):
        return np.stack([observation, observation])
    return [observation, observation]


def _error_of(fault: Fault) -> BaseException | type[BaseException]:
    if fault.error is None:
        return RuntimeError(f"as planned: {fault}")
    try:
        # An exception that was raised keeps everything alive that was in use, and the plan keeps the exception.
        return copy.copy(fault.error)
    except Exception:
        return fault.error


def _sleep_for_ever() -> NoReturn:
    while True:
        time.sleep(3600)


def _leave_no_core() -> None:
    """Nobody wants to debug a crash that was asked for."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))
