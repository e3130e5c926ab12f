"""Every exception Shoal raises, in one tree.

    ShoalError
    ├── ConfigurationError (ValueError)      an argument that cannot work; nothing was started
    │   └── BackendUnavailable               this machine cannot run that backend
    ├── InvalidAction (ValueError)           a batch of actions was refused; nothing was sent
    │   └── InvalidActionType (TypeError)    it was not even of the right kind
    ├── StateError                           a call that does not fit what happened before
    │   ├── ResetNeeded                      also gymnasium.error.ResetNeeded
    │   ├── Closed                           also gymnasium.error.ClosedEnvironmentError
    │   ├── AlreadyPending                   also gymnasium.error.AlreadyPendingCallError
    │   └── NothingPending                   also gymnasium.error.NoAsyncCallError
    ├── SpacesDiffer (RuntimeError)          environments that cannot be batched together; also a ValueError
    ├── GroupMismatch (RuntimeError)         members of a group that do not start from the same observation
    ├── EnvError                             an environment raised; also an instance of what it raised
    │   └── EnvContractError (ValueError)    an environment returned what its spaces do not allow
    ├── WaitTimeout (TimeoutError)           a wait ended early; the work goes on, wait again
    └── WorkerError (RuntimeError)
        ├── CannotStart                      no worker process could be started; a run can go on later
        │   └── OutOfDescriptors             no file descriptor is free
        ├── WorkerDied                       a worker process ended by itself
        ├── WorkerTimeout (TimeoutError)     an environment overran its deadline; its worker was ended
        ├── WorkerCrashLoop                  replacements of a worker died too, again and again
        │   └── PoisonStep                   one environment's step ended every worker that tried it
        ├── ReplayDiverged                   an environment did something else when it was brought back
        └── ProtocolError                    a worker sent something that is not a message

Where Gymnasium has a class for the same mistake, ours is a subclass of it, so code written for Gymnasium's vector
environments catches the same things.
"""

from __future__ import annotations

import multiprocessing
from typing import Any

from gymnasium import error as gymnasium_error


class ShoalError(Exception):
    """The root of every exception that Shoal raises on purpose."""


class ConfigurationError(ShoalError, ValueError):
    """An argument that cannot work. Nothing was started."""


class BackendUnavailable(ConfigurationError):
    """This machine, or this Python, cannot run the chosen backend."""


class InvalidAction(ShoalError, ValueError):
    """A batch of actions was refused. Nothing was sent, and the next step is fine."""


class InvalidActionType(InvalidAction, TypeError):
    """A batch of actions was not even of the right kind: a single number, ``None``, a list for a dictionary."""


class StateError(ShoalError):
    """A call that does not fit what happened before it."""


class ResetNeeded(StateError, gymnasium_error.ResetNeeded):
    """An environment was stepped before it was reset."""


class Closed(StateError, gymnasium_error.ClosedEnvironmentError):
    """The environments were closed."""


class AlreadyPending(StateError, gymnasium_error.AlreadyPendingCallError):
    """Something was started while something else had not been waited for."""

    def __init__(self, message: str, name: str) -> None:
        gymnasium_error.AlreadyPendingCallError.__init__(self, message, name)

    def __reduce__(self) -> tuple[type[AlreadyPending], tuple[str, str]]:
        return type(self), (str(self), self.name)


class NothingPending(StateError, gymnasium_error.NoAsyncCallError):
    """Something was waited for that had not been started."""

    def __init__(self, message: str, name: str) -> None:
        gymnasium_error.NoAsyncCallError.__init__(self, message, name)

    def __reduce__(self) -> tuple[type[NothingPending], tuple[str, str]]:
        return type(self), (str(self), self.name)


class SpacesDiffer(ShoalError, RuntimeError, ValueError):
    """The environments' spaces do not allow them to be batched together."""


class GroupMismatch(ShoalError, RuntimeError):
    """Members of a group were given the same task, but do not start from the same observation."""


class EnvError(ShoalError):
    """An environment raised an exception.

    The exception that reaches the caller is an instance of this class *and*, wherever the two can be combined, of the
    class that the environment raised, so both ``except EnvError`` and ``except ValueError`` work.
    """

    env_index: int
    """Which environment raised."""
    phase: str
    """What it was doing: ``"construct"``, ``"reset"``, ``"step"``, ``"call"`` or ``"set_attr"``."""
    seed: int | None
    """The seed of its last explicit reset, if it had one."""
    episode: int
    """How many episodes it had begun before this one."""
    step: int
    """Which step of the episode it was taking, counted from 1."""
    action: str | None
    """The action it was given, as text."""
    type_name: str
    """The full name of the class it raised."""
    remote_traceback: str
    """Its traceback, as text, as it was where it was raised."""
    original: BaseException | None
    """The exception itself, where it could be brought here."""
    others: tuple[EnvError, ...]
    """What other environments raised during the same call."""

    message: str
    """Everything above in words; ``args`` are those of the exception that the environment raised."""

    def __str__(self) -> str:
        return getattr(self, "message", "") or Exception.__str__(self)

    def __reduce__(self) -> Any:
        # The class may have been made for this one exception, so it is pickled as what it was made from.
        origin = getattr(self, "origin", None)
        if origin is None:
            return super().__reduce__()
        from shoal.vector.failures import as_error

        return as_error, origin


class EnvContractError(EnvError, ValueError):
    """An environment returned something that its spaces or Gymnasium's interface do not allow."""


class WaitTimeout(ShoalError, multiprocessing.TimeoutError, TimeoutError):
    """A wait ended before the environments did. They go on: wait again for the same results, or close."""


class WorkerError(ShoalError, RuntimeError):
    """A worker process, and not an environment's code, is at fault."""


class CannotStart(WorkerError):
    """No worker process could be started: there are too many processes, or too little memory.

    If that happens when a worker is to be replaced, nothing is lost by waiting: the next call tries again, and goes on.
    """


class OutOfDescriptors(CannotStart):
    """No worker process could be started, because no file descriptor is free."""


class WorkerDied(WorkerError):
    """A worker process ended by itself."""


class WorkerTimeout(WorkerError, multiprocessing.TimeoutError, TimeoutError):
    """An environment took longer than its deadline. Its worker was ended."""


class WorkerCrashLoop(WorkerError):
    """A worker was replaced, and its replacements died too, without getting any further."""


class PoisonStep(WorkerCrashLoop):
    """An environment has ended its worker again and again in a step or right after it, at last when no other was at work."""


class ReplayDiverged(WorkerError):
    """An environment did something else when it was brought back: it is not deterministic."""


class ProtocolError(WorkerError):
    """A worker sent bytes that are not a message of ours."""
