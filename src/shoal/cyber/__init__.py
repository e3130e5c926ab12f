"""Network defence: CAGE Challenge 2, as a world of Shoal's and with the real simulator."""

from __future__ import annotations

from typing import Any

from shoal.cyber.agents import B_lineAgent, GreenAgent, RedMeanderAgent, SleepAgent
from shoal.cyber.cyborg_env import CybORGEnv
from shoal.cyber.faces import ParallelEnvPipes, ParallelEnvSharedMemory, VectorizedCAGE2Envs
from shoal.cyber.heuristics import removing, restoring, sleeping
from shoal.cyber.true_states import true_state_dictionaries, true_states

ParallelEnvWrapper = ParallelEnvPipes
"""As the first version of the original was called."""

__all__ = [
    "TRUE_STATE",
    "B_lineAgent",
    "CybORGEnv",
    "GreenAgent",
    "ParallelEnvPipes",
    "ParallelEnvSharedMemory",
    "ParallelEnvWrapper",
    "Quirks",
    "RedMeanderAgent",
    "SleepAgent",
    "VectorizedCAGE2Envs",
    "removing",
    "restoring",
    "sleeping",
    "true_state_dictionaries",
    "true_states",
]


def __getattr__(name: str) -> Any:
    # These come with the compiled world, whose compiler is not there where the real simulator is.
    if name == "TRUE_STATE":
        from shoal.envs.cage2.true_state import TRUE_STATE

        return TRUE_STATE
    if name == "Quirks":
        from shoal.envs.cage2.quirks import Quirks

        return Quirks
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
