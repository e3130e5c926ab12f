"""The engine: many environments as one."""

from __future__ import annotations

from shoal.vector.making import make
from shoal.vector.parallel_env import ParallelEnv

__all__ = ["ParallelEnv", "make"]
