"""Meta-RL: several episodes per task, and a different task in every environment.

Importing this registers the task worlds under the names that they have in the literature, such as ``AntDir-v0``.
"""

from __future__ import annotations

from shoal.envs import register_worlds
from shoal.envs.meta.registered import META_WORLDS
from shoal.meta.making import make_env, make_parallel_env
from shoal.meta.manager import ParallelEnvManager
from shoal.meta.remote import Remote
from shoal.meta.vari_bad import VariBadWrapper

__all__ = ["ParallelEnvManager", "Remote", "VariBadWrapper", "make_env", "make_parallel_env"]

register_worlds(META_WORLDS)
