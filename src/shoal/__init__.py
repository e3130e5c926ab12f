"""Shoal: many environments, moving as one."""

from __future__ import annotations

from shoal._version import __version__
from shoal.envs import register_worlds
from shoal.vector.env_list import EnvList
from shoal.vector.errors import (
    AlreadyPending,
    BackendUnavailable,
    CannotStart,
    Closed,
    ConfigurationError,
    EnvContractError,
    EnvError,
    GroupMismatch,
    InvalidAction,
    InvalidActionType,
    NothingPending,
    OutOfDescriptors,
    PoisonStep,
    ProtocolError,
    ReplayDiverged,
    ResetNeeded,
    ShoalError,
    SpacesDiffer,
    StateError,
    WaitTimeout,
    WorkerCrashLoop,
    WorkerDied,
    WorkerError,
    WorkerTimeout,
)
from shoal.vector.first_ready import Batch
from shoal.vector.making import make, register_with_gymnasium
from shoal.vector.parallel_env import ParallelEnv
from shoal.vector.tasks import Task
from shoal.vector.turns import run_actions

__all__ = [
    "AlreadyPending",
    "BackendUnavailable",
    "Batch",
    "CannotStart",
    "Closed",
    "ConfigurationError",
    "EnvContractError",
    "EnvError",
    "EnvList",
    "GroupMismatch",
    "InvalidAction",
    "InvalidActionType",
    "NothingPending",
    "OutOfDescriptors",
    "ParallelEnv",
    "PoisonStep",
    "ProtocolError",
    "ReplayDiverged",
    "ResetNeeded",
    "ShoalError",
    "SpacesDiffer",
    "StateError",
    "Task",
    "WaitTimeout",
    "WorkerCrashLoop",
    "WorkerDied",
    "WorkerError",
    "WorkerTimeout",
    "__version__",
    "make",
    "run_actions",
]

register_with_gymnasium()
register_worlds()
