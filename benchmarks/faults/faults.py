"""What goes wrong: every fault is one line of data.

All of them strike at the same place, environment 2 in step 20 of a rollout of 40 steps, and only once, unless it is said
otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

NUM_ENVS = 4
NUM_STEPS = 40
FAULT_STEP = 20
FAULT_ENV = 2
FAULT_ACTION = 4
"""What environment 2 is told to do in step 20, and nobody else ever."""
STEPS_AFTERWARDS = 15
"""That are taken after an error has been answered with a reset; fewer than it takes to come to the fault again."""
SEED = 7
LIMIT_SECONDS = 2.0
"""For a step, where a library can be given such a limit, in faults that take for ever."""
SLOW_SECONDS = 3.0
LARGEST_MEGABYTES = 200
"""For a worker, where this can be limited, in the fault that grows."""

Origin = Literal["nobody", "environment", "outside", "caller", "parent"]
Answer = Literal["reset", "again"]


class Leak(NamedTuple):
    """What an environment never gives back, and how slow it is: somebody has to have the time to look at it."""

    megabytes: int
    step_seconds: float


@dataclass(frozen=True)
class Fault:
    """One way for things to go wrong."""

    name: str
    title: str
    origin: Origin = "environment"
    """Who does it: the environment in its step, somebody outside between two steps, the caller with what is passed, or
    whoever kills the process that calls."""
    repeats: bool = False
    """Whether the environment does it again when the step is taken again."""
    answer: Answer = "reset"
    """What the caller does about an error: reset everything, or take the same step again."""
    takes_for_ever: bool = False
    """Whether a time limit is needed to notice it."""
    num_steps: int = NUM_STEPS
    """Of the rollout in which it happens."""
    leak: Leak | None = None
    cause: str = ""
    """What a message that tells the reason would contain."""


FAULTS: tuple[Fault, ...] = (
    Fault("none", "nothing (control)", "nobody"),
    Fault("kill-step", "worker killed (SIGKILL) in mid-step"),
    Fault("kill-idle", "worker killed (SIGKILL) while idle", "outside"),
    Fault("segfault", "segmentation fault in step"),
    Fault("segfault-always", "segmentation fault in step, each time the step is taken", repeats=True),
    Fault("exit", "`os._exit(0)` in step"),
    Fault("hang", "step hangs (sleeps)", takes_for_ever=True),
    Fault("hang-gil", "step hangs holding the GIL (regular expression)", takes_for_ever=True),
    Fault("stop", "worker stopped (SIGSTOP) while idle", "outside", takes_for_ever=True),
    Fault("slow", "one step takes 3 s, limit 2 s; the caller goes on", answer="again", takes_for_ever=True),
    Fault("error", "exception in step", repeats=True, cause="out of fuel"),
    Fault("error-unpicklable", "exception in step that cannot be pickled", repeats=True, cause="lost the simulator"),
    Fault("shape", "observation of the wrong shape", repeats=True),
    Fault("few-actions", "an action too few; the caller goes on", "caller", answer="again"),
    Fault("leak", "environment leaks 2 MB in each of 200 steps of 20 ms", num_steps=200, leak=Leak(2, 0.02)),
    # Its history, taken again, leaks as much as it did the first time.
    Fault("leak-early", "environment leaks 10 MB in each of its first 40 steps, of 50 ms", leak=Leak(10, 0.05)),
    Fault("parent-idle", "calling process killed (SIGKILL), workers idle", "parent"),
    Fault("parent-busy", "calling process killed (SIGKILL), a worker busy", "parent"),
    Fault("parent-gil", "calling process killed (SIGKILL), a worker holds the GIL", "parent"),
)


LONGEST = max(fault.num_steps for fault in FAULTS)


def fault_named(name: str) -> Fault:
    return next(fault for fault in FAULTS if fault.name == name)
