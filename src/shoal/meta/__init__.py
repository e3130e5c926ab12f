"""Meta-RL: several episodes per task, and a different task in every environment.

Importing this registers the task worlds under the names that they have in the literature, such as ``AntDir-v0``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from shoal.envs import register_worlds
from shoal.envs.meta.registered import META_WORLDS
from shoal.meta.architectures import AGENT_ARCHS
from shoal.meta.making import make_env, make_parallel_env
from shoal.meta.manager import ParallelEnvManager
from shoal.meta.remote import Remote
from shoal.meta.vari_bad import VariBadWrapper

if TYPE_CHECKING:
    from shoal.meta.config import MetaConfig
    from shoal.meta.learner import Learner

__all__ = [
    "AGENT_ARCHS",
    "Learner",
    "MetaConfig",
    "ParallelEnvManager",
    "Remote",
    "VariBadWrapper",
    "make_env",
    "make_parallel_env",
]

# Loaded when they are asked for: torch takes seconds, and who steps environments needs none of it.
_PLACES = {"Learner": "shoal.meta.learner", "MetaConfig": "shoal.meta.config"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'shoal.meta' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)


register_worlds(META_WORLDS)
