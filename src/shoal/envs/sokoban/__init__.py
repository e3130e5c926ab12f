"""Sokoban: push all boxes onto targets. Levels are made by playing backwards, so that every one can be solved.

``shoal/Sokoban-v0`` is seen as text, ``shoal/SokobanGrid-v0`` as an array, thousands at once.
"""

from __future__ import annotations

from shoal.envs.sokoban.config import SokobanConfig
from shoal.envs.sokoban.solver import solve
from shoal.envs.sokoban.text_env import SokobanEnv
from shoal.envs.sokoban.world import Sokoban, SokobanGridEnv

__all__ = ["Sokoban", "SokobanConfig", "SokobanEnv", "SokobanGridEnv", "solve"]
